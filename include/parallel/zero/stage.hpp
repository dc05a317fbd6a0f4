// ZeRO stages (Rajbhandari et al., 2020): what every rank keeps whole, and what it keeps 1/N of.
#pragma once

#include <cstdint>

#include <parallel/core/tensor.hpp>

namespace parallel::zero {

/// Bytes per parameter in bf16 with fp32 gradients, N ranks: none 18, optimizer 6 + 12/N.
enum class stage : std::uint8_t {
  none = 0,       // plain data parallelism: everything whole on every rank
  optimizer = 1,  // master weights and optimizer states are sharded
};

/// A range of elements of a flat segment.
struct range {
  index begin = 0;
  index end = 0;
  [[nodiscard]] constexpr index size() const { return end - begin; }
  friend bool operator==(range const&, range const&) = default;
};

/// Rank `rank`'s equal share of a segment of `size` elements (a multiple of `ranks`).
[[nodiscard]] constexpr range shard_of(index size, index rank, index ranks) {
  index const part = size / ranks;
  return {rank * part, (rank + 1) * part};
}

}  // namespace parallel::zero
