// Writes an MDS set (mosaicml-streaming, format version 2), byte for byte as streaming does.
//
// A shard is one little-endian file: uint32 n; uint32 offsets[n + 1] into the file; the layout as
// JSON; the samples back to back. A sample is a uint32 length for every column of variable size, in
// name order, then the values of all columns. A shard is closed before the sample that would make
// it larger than `size_limit` (raw bytes). Memory: one shard, twice while it is compressed.
//
// index.json is written last and atomically, so a folder without it is unfinished and no reader
// mistakes it for complete. The only difference from streaming: a sample larger than the limit gets
// its own shard without an empty shard in front of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/data/mds/mds_index.hpp>
#include <parallel/core/file.hpp>

namespace mpt::data {

struct mds_writer_options {
  std::vector<mds_column> columns{};
  std::string compression{};          ///< "", "zstd" (level 3) or "zstd:1" to "zstd:22"
  std::vector<std::string> hashes{};  ///< algorithms for every file, see hash.hpp
  std::optional<std::uint64_t> size_limit = std::uint64_t{1} << 26;  ///< raw bytes; none: one shard
};

namespace detail {

[[nodiscard]] std::string zstd_compress(std::string_view data, int level);

[[nodiscard]] mds_layout layout_of(mds_writer_options const& options);

}  // namespace detail

class mds_writer {
 public:
  /// Writes into `folder`, which is created. `finished` are the shards that an interrupted run left
  /// there: the next shard gets the number after them.
  mds_writer(std::filesystem::path folder, mds_writer_options const& options,
             std::vector<mds_shard> finished = {});

  [[nodiscard]] mds_layout const& layout() const { return layout_; }
  /// The shards that are on disk.
  [[nodiscard]] std::vector<mds_shard> const& shards() const { return shards_; }

  /// Appends one sample: the encoded values of the columns in the order of `layout().names`.
  /// Returns true if this call closed a shard, which then holds all samples before this one.
  [[nodiscard]] bool write(std::span<std::string_view const> values);

  /// Closes the last shard, writes index.json and returns all shards.
  std::vector<mds_shard> const& finish();

 private:
  [[nodiscard]] std::uint64_t shard_bytes() const;

  void reset();

  [[nodiscard]] mds_file describe(std::string basename, std::string_view content) const;

  void flush();

  std::filesystem::path folder_;
  mds_layout layout_;
  std::string header_;
  std::vector<mds_shard> shards_;
  std::vector<std::uint64_t> offsets_;  // of samples within samples_
  std::string samples_;
};

}  // namespace mpt::data
