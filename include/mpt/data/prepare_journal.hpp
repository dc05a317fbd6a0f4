// The journal that makes `prepare` restartable.
//
// `prepare.journal` stands in the output folder while a set is being written. Its first line holds
// the parameters; every finished shard adds a line: the shard's index entry, where in the input the
// next sample starts, and the counts up to there. A line counts once its '\n' is there (it is
// fsynced after the shard) and its checksum fits, so a kill at any moment loses at most the shard
// in the making. When the set is whole, index.json is written, then `prepare.json` (parameters and
// counts), then the journal goes. Both names are ignored by every MDS reader.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/data/mds_index.hpp>
#include <parallel/core/file.hpp>

namespace mpt::data::detail {

/// How much input has been turned into ids.
struct prepare_counts {
  std::uint64_t documents = 0;
  std::uint64_t bytes = 0;   // of text
  std::uint64_t tokens = 0;  // with bos and eos
};

/// Where a sample starts: id `offset` of document `document` of input `file`.
struct prepare_position {
  std::uint64_t file = 0;
  std::uint64_t document = 0;
  std::uint64_t offset = 0;
  prepare_counts before;  // up to the start of that document
};

[[nodiscard]] nlohmann::json to_json(prepare_counts const& counts);

[[nodiscard]] prepare_counts counts_from_json(nlohmann::json const& object, std::string_view where);

/// `now` without what records of earlier versions do not have, where `then` is of one.
[[nodiscard]] nlohmann::json as_recorded(nlohmann::json now, nlohmann::json const& then);

/// Throws a message that names every parameter in which `now` differs from `then`.
void require_same_parameters(nlohmann::json const& then, nlohmann::json const& now,
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

  /// Those of an interrupted or running run, once it has finished a shard; null: they bind no one.
  [[nodiscard]] nlohmann::json parameters_that_bind() const;

  void remove() { std::filesystem::remove(path_); }

 private:
  /// A checksum in front, so that a changed digit is no valid place to go on from.
  [[nodiscard]] static std::string line_of(nlohmann::json const& entry);

  [[nodiscard]] static nlohmann::json entry_of(std::string_view line, std::string const& where);

  void add(nlohmann::json const& entry, std::string const& where);

  void open();

  std::filesystem::path folder_;
  std::filesystem::path path_;
  parallel::descriptor file_;
  std::vector<mds_shard> shards_;
  prepare_position position_;
};

}  // namespace mpt::data::detail
