// data_fingerprint: facts and checksums of the data that a run reads, so that ranks on different
// machines can compare theirs, and a resumed run its own with those of its checkpoint. A machine
// may have its own copy with differently compressed shards: they are of the decompressed data.
#pragma once

#include <filesystem>
#include <set>
#include <span>
#include <string>

#include <mpt/config/train.hpp>
#include <mpt/data/token_dataset.hpp>
#include <mpt/input_fact.hpp>
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

/// The facts of one set of text, `input`: the checksums of its shards' sizes and of its tokens, and
/// those of its shards that the index states. Equal data have equal facts, wherever they are stored
/// and however they are compressed. Of a set with more than small_input_bytes of ids (four bytes
/// each), unless `extent` is whole, 16 samples count; of a remote set three, as each is a shard to
/// download.
[[nodiscard]] input_facts data_facts(std::string const& input, std::filesystem::path const& path,
                                     data::token_dataset const& set, checksum_extent extent);

/// The facts of each set of a run, in the order of its loaders: of text see data_facts, of examples
/// a checksum of all ids. `examples`: the result of read_run_examples. Throws for a set that cannot
/// be read.
[[nodiscard]] input_facts data_facts(model_config const& model, data_config const& data,
                                     run_examples const& examples, remote_sets const& sets = {},
                                     checksum_extent extent = checksum_extent::sampled);

}  // namespace mpt
