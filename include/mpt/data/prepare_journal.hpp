// The journal that makes `prepare` restartable.
//
// `prepare.journal` is in the output folder while a set is being written. Its first line holds the
// parameters; every finished shard adds a line: the shard's index entry, the position in the input
// at which the next sample starts, and the counts up to that position. A line is valid if it ends
// in '\n' (it is fsynced after the shard) and its checksum matches, so a kill at any moment loses
// at most the unfinished shard. When the set is complete, index.json is written, then
// `prepare.json` (parameters and counts), and then the journal is removed. Every MDS reader ignores
// both names.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/data/mds/mds_index.hpp>
#include <parallel/core/file.hpp>

namespace mpt::data::detail {

/// How much input has been turned into ids.
struct prepare_counts {
  std::uint64_t documents = 0;
  std::uint64_t bytes = 0;   // of text
  std::uint64_t tokens = 0;  // bos and eos included
};

/// The start of a sample: id `offset` of document `document` of input `file`.
struct prepare_position {
  std::uint64_t file = 0;
  std::uint64_t document = 0;
  std::uint64_t offset = 0;
  prepare_counts counts;  // of everything before that document
};

[[nodiscard]] nlohmann::json to_json(prepare_counts const& counts);

[[nodiscard]] prepare_counts counts_from_json(nlohmann::json const& object,
                                              std::string_view location);

/// `current` without the parameters that earlier versions did not record, if `recorded` was written
/// by an earlier version, and with those that only `recorded` has, as null.
[[nodiscard]] nlohmann::json as_recorded(nlohmann::json current, nlohmann::json const& recorded);

/// Throws a message that names every parameter in which `current` differs from `recorded`.
void require_same_parameters(nlohmann::json const& recorded, nlohmann::json const& current,
                             std::filesystem::path const& folder);

class prepare_journal {
 public:
  explicit prepare_journal(std::filesystem::path folder)
      : folder_(std::move(folder)), path_(folder_ / "prepare.journal") {}

  [[nodiscard]] bool exists() const { return std::filesystem::exists(path_); }
  [[nodiscard]] std::vector<mds_shard> const& shards() const { return shards_; }
  [[nodiscard]] prepare_position const& position() const { return position_; }

  /// Begins an empty journal.
  void create(nlohmann::json const& parameters);

  /// Reads a journal left by an interrupted run; once a shard is finished, the parameters must be
  /// the same.
  void resume(nlohmann::json const& parameters);

  /// Records that `shard` is on disk and that the next sample starts at `position`.
  void append(mds_shard const& shard, prepare_position const& position);

  /// The parameters that later runs must repeat: those of an interrupted or running run that has
  /// finished a shard. Null if there is no such run.
  [[nodiscard]] nlohmann::json binding_parameters() const;

  void remove() { std::filesystem::remove(path_); }

 private:
  /// `entry` as a line with its checksum in front, so that a changed digit is noticed.
  [[nodiscard]] static std::string format_line(nlohmann::json const& entry);

  [[nodiscard]] static nlohmann::json parse_line(std::string_view line,
                                                 std::string const& location);

  void add(nlohmann::json const& entry, std::string const& location);

  void open();

  std::filesystem::path folder_;
  std::filesystem::path path_;
  parallel::descriptor file_;
  std::vector<mds_shard> shards_;
  prepare_position position_;
};

}  // namespace mpt::data::detail
