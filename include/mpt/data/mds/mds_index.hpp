// index.json of an MDS set: its shards, their columns, and how they are stored.
//
// The format is version 2 of mosaicml-streaming. Everything is checked when it is parsed: names of
// files are plain relative names without "..", sizes are within the format's limits, and columns
// agree with their encodings. `to_json` prints exactly streaming's fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/data/mds/mds_encoding.hpp>

namespace mpt::data {

/// One file of a shard: name relative to the folder of index.json, size, hex digests by algorithm.
struct mds_file {
  std::string basename;
  std::uint64_t bytes = 0;
  std::map<std::string, std::string> hashes;
};

/// A column: name and encoding name ("tokens", "ndarray:int32").
struct mds_column {
  std::string name;
  std::string encoding;
};

/// The part of an index entry that the shard's header repeats; equal for all shards of one writer.
struct mds_layout {
  std::vector<std::string> names;       ///< the columns' names; the writer sorts them
  std::vector<mds_encoding> encodings;  ///< one for each column
  std::string compression;              ///< "" for none, "zstd", "zstd:7", ...
  std::vector<std::string> hashes;      ///< names of hash algorithms, sorted
  /// The size in bytes above which the writer begins another shard; no value: no limit.
  std::optional<std::uint64_t> size_limit = std::uint64_t{1} << 26;

  /// The index of column `name`. Throws, listing the columns, if there is none.
  [[nodiscard]] std::size_t column(std::string_view name) const;
  /// The header object, as every shard holds it.
  [[nodiscard]] nlohmann::json to_json() const;
  [[nodiscard]] static mds_layout from_json(nlohmann::json const& object,
                                            std::string_view location);
};

/// One shard of the index.
struct mds_shard {
  mds_layout layout;
  std::uint64_t samples = 0;
  mds_file raw;                 ///< the uncompressed file
  std::optional<mds_file> zip;  ///< the compressed file; no value without compression

  [[nodiscard]] nlohmann::json to_json() const;
  [[nodiscard]] static mds_shard from_json(nlohmann::json const& object, std::string_view location);
};

/// Whether `name` is a relative path of plain parts: no "..", no empty part, no leading slash.
[[nodiscard]] bool is_plain_path(std::string_view name);

/// Bytes of the largest index.json that is read.
inline constexpr std::uint64_t max_mds_index_bytes = std::uint64_t{1} << 30;

/// Parses the text of an index.json; `location` names it in errors.
[[nodiscard]] std::vector<mds_shard> parse_mds_index(std::string_view text,
                                                     std::string_view location);

/// The text of index.json for `shards`, as streaming writes it.
[[nodiscard]] std::string print_mds_index(std::vector<mds_shard> const& shards);

}  // namespace mpt::data
