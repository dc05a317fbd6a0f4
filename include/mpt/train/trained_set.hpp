// trained_set: what a run trains on, as a checkpoint remembers it.
#pragma once

#include <cstdint>
#include <string>

namespace mpt {

struct trained_set {
  /// Of an epoch: sequences of text, or examples.
  std::int64_t samples = 0;
  /// Of all examples, or of the sizes of the shards of text; "": unknown.
  std::string checksum = {};
  std::int64_t batches_per_epoch = 0;  ///< 0: unknown
  /// Of text: of the first, middle and last sample of each set, however they are compressed.
  std::string contents = {};
  /// Of text: of the hashes that the indexes have; "": one has none of a shard. Hashes are of the
  /// files, so they can be compared where `written_as` (compression and algorithms) is the same.
  std::string hashes = {};
  std::string written_as = {};
};

}  // namespace mpt
