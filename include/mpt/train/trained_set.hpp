// trained_set: what a run trains on, as a checkpoint remembers it.
#pragma once

#include <cstdint>
#include <string>

namespace mpt {

struct trained_set {
  std::int64_t samples = 0;  ///< of an epoch: sequences of text, or examples
  std::string checksum =
      {};  ///< of all examples, or of the sizes of the shards of text; or unknown
};

}  // namespace mpt
