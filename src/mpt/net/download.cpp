#include <mpt/net/download.hpp>

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include <mpt/net/url.hpp>
#include <parallel/core/file.hpp>

namespace mpt::net {
namespace {

namespace fs = std::filesystem;

[[nodiscard]] fs::path with_ending(fs::path path, char const* ending) {
  path += ending;
  return path;
}

[[nodiscard]] std::optional<std::uint64_t> read_number(std::string_view text) {
  std::uint64_t value = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || text.empty())
    return std::nullopt;
  return value;
}

struct byte_range {
  std::uint64_t first = 0, last = 0;
  std::optional<std::uint64_t> total;  ///< nothing where the server does not say
};

/// Reads "bytes FIRST-LAST/TOTAL".
[[nodiscard]] std::optional<byte_range> read_content_range(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  auto const dash = text.find('-');
  auto const slash = text.find('/');
  if (dash == text.npos || slash == text.npos || dash > slash) return std::nullopt;
  auto const first = read_number(text.substr(0, dash));
  auto const last = read_number(text.substr(dash + 1, slash - dash - 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return byte_range{*first, *last, read_number(text.substr(slash + 1))};
}

/// The part of a file that came so far.
class partial_file {
 public:
  explicit partial_file(fs::path const& target)
      : path_(with_ending(target, ".incomplete")),
        etag_path_(with_ending(target, ".incomplete.etag")) {
    std::error_code absent;
    auto const size = fs::file_size(path_, absent);
    size_ = absent ? 0 : size;
    if (!absent) file_.emplace(path_, parallel::output_file::existing::keep);
    if (!absent && fs::exists(etag_path_, absent))
      etag_ = parallel::read_text_file(etag_path_, 4096);
  }

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] fs::path const& path() const { return path_; }
  /// The strong ETag of the response of which this is a part; empty if it had none.
  [[nodiscard]] std::string const& etag() const { return etag_; }

  /// Starts over, with a response that has this ETag (or an empty one).
  void restart(std::string const& etag) {
    std::error_code ignored;
    fs::remove(etag_path_, ignored);
    file_.emplace(path_, parallel::output_file::existing::replace);
    size_ = 0;
    etag_ = etag;
    if (!etag.empty()) parallel::write_text_file(etag_path_, etag);
  }

  void append(std::string_view bytes) {
    file_->write(size_, std::as_bytes(std::span(bytes)));
    size_ += bytes.size();
  }

  void discard() {
    std::error_code ignored;
    file_.reset();
    fs::remove(etag_path_, ignored);
    fs::remove(path_, ignored);
    size_ = 0;
    etag_.clear();
  }

  void move_to(fs::path const& target) {
    file_->sync();
    file_.reset();
    parallel::files::rename(path_, target);
    std::error_code ignored;
    fs::remove(etag_path_, ignored);
    parallel::files::sync_folder(parallel::files::parent_folder(target));
  }

 private:
  fs::path path_, etag_path_;
  std::optional<parallel::output_file> file_;
  std::uint64_t size_ = 0;
  std::string etag_;
};

/// The attempts at one file.
class file_download {
 public:
  file_download(network const& net, http_request const& request, fs::path const& target,
                expected_content const& expected, byte_progress const& on_bytes)
      : net_(net),
        request_(request),
        address_(parse_url(request.url).displayed()),
        expected_(expected),
        on_bytes_(on_bytes),
        partial_(target) {
    if (expected_.size && partial_.size() > *expected_.size) partial_.discard();
    if (partial_.etag().empty() && !expected_.checksum) partial_.discard();
  }

  [[nodiscard]] partial_file& partial() { return partial_; }
  [[nodiscard]] bool is_whole() const {
    return expected_.size && partial_.size() == *expected_.size;
  }

  /// Gets what is missing, in as many attempts as the client makes.
  [[nodiscard]] http_response run() {
    return net_.client.retry(
        [&] {
          begin_ = partial_.size();
          return attempt();
        },
        [&] { return partial_.size() > begin_; }, request_.is_cancelled);
  }

 private:
  [[nodiscard]] http_response attempt() {
    auto request = request_;
    request.headers.emplace_back("Accept-Encoding", "identity");
    if (begin_ > 0) {
      request.headers.emplace_back("Range", parallel::concat("bytes=", begin_, "-"));
      if (!partial_.etag().empty()) request.headers.emplace_back("If-Range", partial_.etag());
    }
    has_begun_ = false;
    auto response = net_.client.send(
        request, [&](http_response const& head, std::string_view bytes) { take(head, bytes); });
    if (response.status == 416) {  // what is here is no part of what is there
      partial_.discard();
      throw connection_error(address_ + ": the server has no bytes from " + std::to_string(begin_) +
                             " on; beginning anew");
    }
    if (!response.succeeded()) return response;
    if (!has_begun_) begin(response);
    if (total_ && partial_.size() < *total_)
      throw connection_error(parallel::concat(address_, ": the connection was cut after ",
                                              partial_.size(), " of ", *total_, " bytes"));
    return response;
  }

  /// Checks the head of a response whose body comes next.
  void begin(http_response const& head) {
    has_begun_ = true;
    auto const encoding = head.header("content-encoding").value_or("identity");
    parallel::require(encoding == "identity", address_, ": the server sends it in the form ",
                      encoding, ", which was not asked for");
    auto const length = read_number(head.header("content-length").value_or(""));
    if (head.status == 206) {
      auto const range = read_content_range(head.header("content-range").value_or(""));
      parallel::require(range && begin_ > 0 && range->first == begin_, address_,
                        ": the server was asked for the bytes from ", begin_,
                        " on and sends others (Content-Range: ",
                        head.header("content-range").value_or("none"), ")");
      total_ = range->total ? range->total : expected_.size;
    } else {
      auto const etag = head.header("etag").value_or("");
      partial_.restart(etag.starts_with('"') && etag.size() < 1000 ? etag : std::string());
      total_ = length ? length : expected_.size;
    }
    if (expected_.size && total_ && *total_ != *expected_.size)
      throw changed_file(parallel::concat(
          address_, ": the server has ", *total_, " bytes of it, and it should have ",
          *expected_.size,
          "; it may have changed just now: try again, or ask who runs the server"));
    require_within_limit(total_.value_or(0));
  }

  void take(http_response const& head, std::string_view bytes) {
    if (!has_begun_) begin(head);
    parallel::require(!total_ || bytes.size() <= *total_ - std::min(*total_, partial_.size()),
                      address_, ": the server sends more than the ", total_.value_or(0),
                      " bytes that it should have");
    require_within_limit(partial_.size() + bytes.size());
    partial_.append(bytes);
    if (on_bytes_) on_bytes_(partial_.size());
  }

  void require_within_limit(std::uint64_t bytes) const {
    parallel::require(bytes <= expected_.max_size, address_, ": the server sends more than the ",
                      expected_.max_size, " bytes that such a file may have");
  }

  network const& net_;
  http_request const& request_;
  std::string address_;
  expected_content const& expected_;
  byte_progress const& on_bytes_;
  partial_file partial_;
  std::uint64_t begin_ = 0;  ///< bytes that were here before the attempt
  std::optional<std::uint64_t> total_;
  bool has_begun_ = false;
};

}  // namespace

std::string digest_of_file(fs::path const& file, checksum const& like) {
  digest sum(like.kind);
  sum.update(like.prefix);
  parallel::input_file const in(file);
  std::vector<std::byte> bytes(std::size_t{1} << 20);
  for (std::uint64_t offset = 0;;) {
    auto const count = in.read_some(offset, bytes);
    if (count == 0) break;
    sum.update({reinterpret_cast<char const*>(bytes.data()), count});
    offset += count;
  }
  return sum.finish();
}

http_response download(network const& net, http_request const& request, fs::path const& target,
                       expected_content const& expected, byte_progress const& on_bytes) {
  for (bool is_second = false;; is_second = true) {
    file_download work(net, request, target, expected, on_bytes);
    http_response response;
    if (work.is_whole() && work.partial().size() > 0) {
      response.status = 200;  // it came whole, and was not put in its place
      response.url = request.url;
    } else {
      response = work.run();
    }
    if (!response.succeeded()) return response;
    if (expected.checksum) {
      auto const found = digest_of_file(work.partial().path(), *expected.checksum);
      if (found != expected.checksum->hexadecimal) {
        work.partial().discard();
        parallel::require(
            !is_second, parse_url(request.url).displayed(), ": what came has the checksum ", found,
            ", and it should have ", expected.checksum->hexadecimal,
            ": the server or something between sends other bytes; nothing of it was kept");
        continue;
      }
    }
    work.partial().move_to(target);
    return response;
  }
}

}  // namespace mpt::net
