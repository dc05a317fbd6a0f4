// One shard of an MDS set, opened and checked: the bytes of any of its samples.
//
// A raw shard stays on disk: opening reads its header and offsets, a sample is one pread. A
// compressed shard is decompressed into memory on opening, never beyond the raw size the index
// declares; where streaming left the raw file beside it, that is read instead. Before a sample is
// handed out everything the header says is known to agree with the index and with the file's size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/data/byte_stream.hpp>
#include <mpt/data/hash.hpp>
#include <mpt/data/mds_index.hpp>

namespace mpt::data {

/// One sample: its own bytes and where each column lies in them. What it hands out are views of it.
class mds_sample {
 public:
  /// Cuts `bytes` into the columns of `layout`; throws unless they fill it exactly.
  mds_sample(mds_layout const& layout, std::string bytes, std::string where)
      : layout_(&layout), where_(std::move(where)), bytes_(std::move(bytes)) {
    std::uint64_t lengths = 0;
    for (auto const& encoding : layout.encodings) lengths += encoding.fixed_bytes ? 0 : 4;
    parallel::require(lengths <= bytes_.size(), where_, ": ", bytes_.size(),
                      " bytes are too few for its column lengths");
    std::uint64_t at = lengths;
    std::size_t next_length = 0;
    for (auto const& encoding : layout.encodings) {
      std::uint64_t size = encoding.fixed_bytes.value_or(0);
      if (!encoding.fixed_bytes) {
        size = detail::load<std::uint32_t>(bytes_.data() + next_length);
        next_length += 4;
      }
      parallel::require(size <= bytes_.size() - at, where_, ": a column of ", size,
                        " bytes does not fit in the ", bytes_.size() - at, " left");
      starts_.push_back(at);
      at += size;
    }
    starts_.push_back(at);
    parallel::require(at == bytes_.size(), where_, ": has ", bytes_.size() - at,
                      " bytes beyond its columns");
  }

  [[nodiscard]] mds_layout const& layout() const { return *layout_; }
  /// "file, sample 3", for messages.
  [[nodiscard]] std::string const& where() const { return where_; }

  /// The encoded value of a column.
  [[nodiscard]] std::string_view bytes(std::size_t column) const& {
    return std::string_view(bytes_).substr(starts_[column], starts_[column + 1] - starts_[column]);
  }
  [[nodiscard]] std::string_view bytes(std::string_view column) const& {
    return bytes(layout_->column(column));
  }
  /// A str, bytes or json value as it stands.
  [[nodiscard]] std::string_view text(std::string_view column) const& { return bytes(column); }
  [[nodiscard]] std::string text(std::string_view column) && {
    return std::string(static_cast<mds_sample const&>(*this).bytes(column));
  }
  /// A json value, parsed.
  [[nodiscard]] nlohmann::json json(std::string_view column) const {
    return parse_json(bytes(column), where_);
  }
  /// An ndarray value; a view into this sample.
  [[nodiscard]] mds_array array(std::string_view column) const& {
    auto const at = layout_->column(column);
    return layout_->encodings[at].decode_array(bytes(at), where_);
  }
  // Views into a sample that is about to go are refused by the compiler: name the sample first.
  std::string_view bytes(std::size_t column) && = delete;
  std::string_view bytes(std::string_view column) && = delete;
  mds_array array(std::string_view column) && = delete;

  /// An int, int8..64, uint8..64 or float16..64 value.
  template <class Number>
  [[nodiscard]] Number scalar(std::string_view column) const {
    auto const at = layout_->column(column);
    return layout_->encodings[at].decode_scalar<Number>(bytes(at), where_);
  }

 private:
  mds_layout const* layout_;
  std::string where_;
  std::string bytes_;
  std::vector<std::uint64_t> starts_;
};

class mds_shard_file {
 public:
  /// `check_hashes`: the checksums that the index has are compared with the files, which reads a
  /// raw shard once in full.
  mds_shard_file(std::filesystem::path const& folder, mds_shard const& shard, bool check_hashes)
      : shard_(&shard) {
    auto const raw = folder / shard.raw.basename;
    bool const unpacked = !shard.zip || (!std::filesystem::exists(folder / shard.zip->basename) &&
                                         std::filesystem::exists(raw));
    if (unpacked) {
      file_.emplace(raw);
      parallel::require(file_->size() == shard.raw.bytes, file_->name(), ": has ", file_->size(),
                        " bytes, index.json says ", shard.raw.bytes,
                        ": the file is incomplete or belongs to another set");
      name_ = file_->name();
      if (check_hashes && !shard.raw.hashes.empty())
        require_hashes(parallel::read_text_file(raw, shard.raw.bytes), shard.raw);
    } else {
      decompress(folder / shard.zip->basename, check_hashes);
    }
    check_header();
  }

  /// Bytes this object keeps in memory.
  [[nodiscard]] std::uint64_t memory() const { return content_.size() + offsets_.size() * 4; }
  [[nodiscard]] std::uint64_t size() const { return shard_->samples; }

  /// Sample `at` < size() of this shard. Safe to call from several threads.
  [[nodiscard]] mds_sample sample(std::uint64_t at) const {
    auto const begin = offsets_[at];
    std::string bytes(offsets_[at + 1] - begin, '\0');
    auto where = parallel::concat(name_, ", sample ", at);
    read(begin, bytes.data(), bytes.size(), where);
    return {shard_->layout, std::move(bytes), std::move(where)};
  }

 private:
  void read(std::uint64_t offset, char* out, std::size_t count, std::string_view what) const {
    if (file_) return file_->read(offset, std::as_writable_bytes(std::span(out, count)), what);
    parallel::require(offset + count <= content_.size(), name_, ": ends inside ", what);
    std::memcpy(out, content_.data() + offset, count);
  }

  void require_hashes(std::string_view content, mds_file const& file) const {
    for (auto const& [algorithm, digest] : file.hashes) {
      if (!is_known_hash(algorithm)) continue;
      auto const found = hash_of(algorithm, content);
      auto const path = std::filesystem::path(name_).replace_filename(file.basename);
      parallel::require(found == digest, path.native(), ": ", algorithm, " is ", found,
                        ", index.json says ", digest,
                        ": the file is damaged or belongs to another set; fetch it again");
    }
  }

  void decompress(std::filesystem::path const& path, bool check_hashes) {
    auto const& layout = shard_->layout;
    name_ = path.native();
    parallel::require(layout.compression.starts_with("zstd"), name_, ": compression '",
                      layout.compression, "' is not supported; write the set with zstd or none");
    auto const packed = parallel::read_text_file(path, shard_->zip->bytes);
    parallel::require(packed.size() == shard_->zip->bytes, name_, ": has ", packed.size(),
                      " bytes, index.json says ", shard_->zip->bytes,
                      ": the file is incomplete or belongs to another set");
    if (check_hashes) require_hashes(packed, *shard_->zip);
    // The frame's own claim of its size is looked at before memory is taken for the index's claim.
    auto const claimed = ZSTD_getFrameContentSize(packed.data(), packed.size());
    bool const told = claimed != ZSTD_CONTENTSIZE_UNKNOWN && claimed != ZSTD_CONTENTSIZE_ERROR;
    parallel::require(!told || claimed <= shard_->raw.bytes, name_, ": decompresses to ", claimed,
                      " bytes, index.json says ", shard_->raw.bytes);
    // A frame need not say: then what zstd can make of so few bytes at most (128 KiB of 4) counts.
    parallel::require(shard_->raw.bytes / (1U << 15) <= packed.size(), name_, ": its ",
                      packed.size(), " bytes cannot become the ", shard_->raw.bytes,
                      " that index.json says");
    parallel::require(expands_as_data(shard_->raw.bytes, packed.size()), name_, ": more than ",
                      largest_ratio, " times its size when decompressed (", shard_->raw.bytes,
                      " bytes of ", packed.size(),
                      "): no tokens, maybe a bomb; if it is meant, decompress it to ",
                      shard_->raw.basename, " beside it and remove it");
    content_.resize(shard_->raw.bytes);
    auto const size =
        ZSTD_decompress(content_.data(), content_.size(), packed.data(), packed.size());
    parallel::require(ZSTD_isError(size) == 0, name_, ": damaged zstd data: ",
                      std::string_view(ZSTD_isError(size) != 0 ? ZSTD_getErrorName(size) : ""),
                      "; fetch it again");
    parallel::require(size == content_.size(), name_, ": decompresses to ", size,
                      " bytes, index.json says ", shard_->raw.bytes);
    if (check_hashes) require_hashes(content_, shard_->raw);
  }

  void check_header() {
    auto const bytes = shard_->raw.bytes;
    auto const samples = shard_->samples;
    auto const table = 4 + 4 * (samples + 1);
    parallel::require(table <= bytes, name_, ": ", bytes, " bytes are too few for ", samples,
                      " samples");
    char count[4];
    read(0, count, 4, "the sample count");
    parallel::require(detail::load<std::uint32_t>(count) == samples, name_, ": holds ",
                      detail::load<std::uint32_t>(count), " samples, index.json says ", samples);
    offsets_.resize(samples + 1);
    read(4, reinterpret_cast<char*>(offsets_.data()), 4 * (samples + 1), "the offsets");
    for (std::size_t i = 0; i < samples; ++i)
      parallel::require(offsets_[i] <= offsets_[i + 1], name_, ": offset of sample ", i + 1, " (",
                        offsets_[i + 1], ") lies before that of sample ", i, " (", offsets_[i],
                        ")");
    parallel::require(offsets_.front() >= table && offsets_.back() == bytes, name_,
                      ": samples lie from byte ", offsets_.front(), " to ", offsets_.back(),
                      ", expected from ", table, " or later to ", bytes);
    auto const header_bytes = offsets_.front() - table;
    parallel::require(header_bytes <= (1U << 20), name_, ": header of ", header_bytes, " bytes");
    std::string header(header_bytes, '\0');
    read(table, header.data(), header.size(), "the header");
    auto const where = name_ + ": header";
    auto const found = mds_layout::from_json(parse_json(header, where), where);
    bool same = found.names == shard_->layout.names;
    for (std::size_t i = 0; same && i < found.names.size(); ++i)
      same = found.encodings[i].name == shard_->layout.encodings[i].name;
    parallel::require(same, where, ": columns differ from those in index.json");
  }

  mds_shard const* shard_;
  std::string name_;
  std::optional<parallel::input_file> file_;
  std::string content_;  // raw bytes of a compressed shard
  std::vector<std::uint32_t> offsets_;
};

}  // namespace mpt::data
