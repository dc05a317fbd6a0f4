#include <mpt/data/byte_stream.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <mpt/ascii.hpp>

namespace mpt::data {

bool is_json_ending(std::string_view ending) {
  return ending == ".json" || ending == ".jsonl" || ending == ".jsonlines" || ending == ".ndjson";
}

compression compression_of(std::string_view whole_name) {
  auto const name = lower_case(
      whole_name.substr(whole_name.size() - std::min<std::size_t>(5, whole_name.size())));
  if (name.ends_with(".gz")) return compression::gzip;
  if (name.ends_with(".zst") || name.ends_with(".zstd")) return compression::zstd;
  return compression::none;
}

byte_stream::byte_stream(std::filesystem::path path, compression kind)
    : file_(std::move(path)), compression_(kind), window_(std::size_t{1} << 18) {
  if (compression_ == compression::gzip) {
    auto stream = std::make_unique<::z_stream>();
    // 15: largest window; + 16: gzip header and checksum required
    parallel::require(::inflateInit2(stream.get(), 15 + 16) == Z_OK, "zlib: out of memory");
    gzip_.reset(stream.release());
  } else if (compression_ == compression::zstd) {
    zstd_.reset(ZSTD_createDCtx());
    parallel::require(zstd_ != nullptr, "zstd: out of memory");
  }
}

std::size_t byte_stream::read(char* out, std::size_t count) {
  if (compression_ == compression::none) {
    auto const count_read =
        file_.read_some(read_bytes_, std::as_writable_bytes(std::span(out, count)));
    read_bytes_ += count_read;
    return count_read;
  }
  for (;;) {
    if (window_begin_ == window_end_) refill();
    bool const has_input = window_begin_ != window_end_;
    auto const count_read =
        compression_ == compression::gzip ? inflate(out, count) : decompress(out, count);
    decompressed_bytes_ += count_read;
    parallel::require(is_plausible_expansion(decompressed_bytes_, consumed()), file_.name(),
                      ": more than ", max_expansion_ratio, " times its size when decompressed (",
                      decompressed_bytes_, " bytes of ", consumed(),
                      "): not text, maybe a bomb; decompress it yourself if that is meant");
    if (count_read > 0) return count_read;
    if (!has_input) {
      parallel::require(is_between_frames_ && read_bytes_ > 0, file_.name(), ": the ",
                        compression_ == compression::gzip ? "gzip" : "zstd",
                        " data ends in the middle, at byte ", consumed(),
                        ": the file is cut short; fetch it again");
      return 0;
    }
  }
}

void byte_stream::inflate_deleter::operator()(::z_stream* stream) const {
  ::inflateEnd(stream);
  delete stream;
}

void byte_stream::context_deleter::operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }

void byte_stream::refill() {
  window_begin_ = 0;
  window_end_ = file_.read_some(read_bytes_, std::as_writable_bytes(std::span(window_)));
  read_bytes_ += window_end_;
}

void byte_stream::fail_damaged(std::string_view reason) const {
  parallel::fail(file_.name(), ": damaged ", compression_ == compression::gzip ? "gzip" : "zstd",
                 " data near byte ", consumed(), " of the file: ", reason, "; fetch it again");
}

std::size_t byte_stream::inflate(char* out, std::size_t count) {
  if (is_between_frames_) {
    if (window_begin_ == window_end_) return 0;
    ::inflateReset(gzip_.get());
  }
  auto const room = static_cast<unsigned>(std::min<std::size_t>(count, 1U << 30));
  gzip_->next_in = reinterpret_cast<unsigned char*>(window_.data() + window_begin_);
  gzip_->avail_in = static_cast<unsigned>(window_end_ - window_begin_);
  gzip_->next_out = reinterpret_cast<unsigned char*>(out);
  gzip_->avail_out = room;
  auto const status = ::inflate(gzip_.get(), Z_NO_FLUSH);
  window_begin_ = window_end_ - gzip_->avail_in;
  if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
    fail_damaged(gzip_->msg != nullptr ? gzip_->msg : "zlib error");
  is_between_frames_ = status == Z_STREAM_END;
  return room - gzip_->avail_out;
}

std::size_t byte_stream::decompress(char* out, std::size_t count) {
  ZSTD_inBuffer input{window_.data(), window_end_, window_begin_};
  ZSTD_outBuffer output{out, count, 0};
  if (is_between_frames_ && input.pos == input.size) return 0;
  auto const status = ZSTD_decompressStream(zstd_.get(), &output, &input);
  window_begin_ = input.pos;
  if (ZSTD_isError(status) != 0) fail_damaged(ZSTD_getErrorName(status));
  is_between_frames_ = status == 0;
  return output.pos;
}

std::size_t byte_order_mark(std::string_view text, std::string_view name) {
  using namespace std::string_view_literals;
  if (text.starts_with("\xEF\xBB\xBF"sv)) return 3;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> unsupported_marks = {
      {{"\xFF\xFE\0\0"sv, "UTF-32"},
       {"\0\0\xFE\xFF"sv, "UTF-32"},
       {"\xFF\xFE"sv, "UTF-16"},
       {"\xFE\xFF"sv, "UTF-16"}}};
  for (auto const& [mark, encoding] : unsupported_marks)
    if (text.starts_with(mark))
      parallel::fail(name, ": is text in ", encoding,
                     " by its byte order mark, and UTF-8 is read; convert it: iconv -f ", encoding,
                     " -t UTF-8 IN > OUT");
  return 0;
}

}  // namespace mpt::data
