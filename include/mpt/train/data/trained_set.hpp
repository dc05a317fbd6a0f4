// trained_set: identifies the training data of a run in its checkpoints.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace mpt {

struct trained_set {
  /// Samples of an epoch: sequences of text, or examples.
  std::int64_t samples = 0;
  /// Checksum of all examples, or of the sizes of the shards of text; "": unknown.
  std::string checksum = {};
  std::int64_t batches_per_epoch = 0;  ///< 0: unknown
  /// For text: checksum of the first, middle and last sample of each set, decompressed.
  std::string contents = {};
  /// For text: checksum of the shard hashes in the indexes; "" if an index lacks one. Hashes are
  /// computed from the files, so they can be compared where `written_as` (compression and
  /// algorithms) is equal.
  std::string hashes = {};
  std::string written_as = {};
  /// For examples: the date that the tokenizer's chat template shows, in every start of the run.
  std::chrono::local_seconds date = {};
};

}  // namespace mpt
