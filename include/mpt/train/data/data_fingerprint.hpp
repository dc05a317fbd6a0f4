// data_fingerprint: describes the data that a run reads, one line per set, so that ranks on
// different machines can compare theirs. A machine may have its own copy with differently
// compressed shards: the lines describe the decompressed data.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/data/token_dataset.hpp>
#include <mpt/train/data/example_set.hpp>
#include <mpt/train/data/remote_sets.hpp>
#include <parallel/checkpoint/format/hash.hpp>

namespace mpt {

namespace detail {

/// The checksum of a set's shard sizes and of its first, middle and last sample.
[[nodiscard]] std::string checksum_of(data::token_dataset const& set);

/// One checksum of the shard hashes that the indexes hold.
class shard_hashes {
 public:
  void add(std::span<data::mds_shard const> shards);

  /// The checksum; "" where a shard has no hash.
  [[nodiscard]] std::string checksum() const;
  /// The compressions and hash algorithms of the shards.
  [[nodiscard]] std::string written_as() const;

 private:
  parallel::checkpoint::running_checksum sum_;
  std::set<std::string> encodings_;
  bool all_have_hashes_ = true;
};

[[nodiscard]] std::string checksum_of(example_set const& set);

}  // namespace detail

/// A line for each set of a run, in the order of its loaders: its name and a checksum, for examples
/// of all ids, for text of the shards' sizes and three samples. Equal data give equal lines,
/// wherever they are stored and however they are compressed. `examples`: the result of
/// read_run_examples. Throws for a set that cannot be read. Cost: three shards of each set are
/// read.
[[nodiscard]] std::vector<std::string> data_fingerprint(model_config const& model,
                                                        data_config const& data,
                                                        run_examples const& examples,
                                                        remote_sets const& sets = {});

}  // namespace mpt
