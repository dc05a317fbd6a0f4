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
};

}  // namespace mpt
