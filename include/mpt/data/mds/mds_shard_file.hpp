// One shard of an MDS set, opened and checked: the bytes of any of its samples.
//
// A raw shard stays on disk: opening reads its header and offsets, and each sample is one pread. A
// compressed shard is decompressed into memory on opening, never beyond the raw size that the index
// declares; if mosaicml-streaming left only the raw file, the raw file is read instead. Opening
// checks that the header agrees with the index and with the size of the file, so every sample
// returned comes from a consistent shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/data/byte_stream.hpp>
#include <mpt/data/mds/mds_index.hpp>

namespace mpt::data {

/// One sample: its bytes and the offset of each column in them. Most accessors return views of it.
class mds_sample {
 public:
  /// Cuts `bytes` into the columns of `layout`; throws unless they fill it exactly.
  mds_sample(mds_layout const& layout, std::string bytes, std::string location);

  [[nodiscard]] mds_layout const& layout() const { return *layout_; }
  /// "file, sample 3", for messages.
  [[nodiscard]] std::string const& location() const { return location_; }

  /// The encoded value of a column.
  [[nodiscard]] std::string_view bytes(std::size_t column) const&;
  [[nodiscard]] std::string_view bytes(std::string_view column) const&;
  /// A str, bytes or json value, unchanged.
  [[nodiscard]] std::string_view text(std::string_view column) const& { return bytes(column); }
  [[nodiscard]] std::string text(std::string_view column) &&;
  /// A json value, parsed.
  [[nodiscard]] nlohmann::json json(std::string_view column) const;
  /// An ndarray value; a view into this sample.
  [[nodiscard]] mds_array array(std::string_view column) const&;
  // The compiler refuses views into a temporary sample: give the sample a name first.
  std::string_view bytes(std::size_t column) && = delete;
  std::string_view bytes(std::string_view column) && = delete;
  mds_array array(std::string_view column) && = delete;

  /// An int, int8..64, uint8..64 or float16..64 value.
  template <class Number>
  [[nodiscard]] Number scalar(std::string_view column) const {
    auto const index = layout_->column(column);
    return layout_->encodings[index].decode_scalar<Number>(bytes(index), location_);
  }

 private:
  mds_layout const* layout_;
  std::string location_;
  std::string bytes_;
  std::vector<std::uint64_t> starts_;
};

class mds_shard_file {
 public:
  /// `check_hashes`: a raw file is compared with the checksums in the index, which reads it once in
  /// full. A compressed one always is.
  mds_shard_file(std::filesystem::path const& folder, mds_shard const& shard, bool check_hashes);

  /// Bytes that this object holds in memory.
  [[nodiscard]] std::uint64_t memory() const { return content_.size() + offsets_.size() * 4; }
  [[nodiscard]] std::uint64_t size() const { return shard_->samples; }

  /// Sample `index` < size() of this shard. Thread-safe.
  [[nodiscard]] mds_sample sample(std::uint64_t index) const;

 private:
  void read(std::uint64_t offset, char* out, std::size_t count,
            std::string_view content_name) const;

  void require_hashes(std::string_view content, mds_file const& file) const;

  void decompress(std::filesystem::path const& path);

  void check_header();

  mds_shard const* shard_;
  std::string name_;
  std::optional<parallel::input_file> file_;
  std::string content_;  // raw bytes of a compressed shard
  std::vector<std::uint32_t> offsets_;
};

}  // namespace mpt::data
