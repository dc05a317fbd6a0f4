// The permutation that PyTorch's randperm draws on a CPU from a seed, number for number.
//
// LLM Foundry shuffles finetuning data by it (DistributedSampler: a generator seeded with seed +
// epoch), so with it a global batch holds the rows that it holds there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// 0 .. size - 1 in random order; size below 2^32 / 20, above which PyTorch draws otherwise. Only
/// the low 32 bits of the seed count, as there. Cost: O(size).
[[nodiscard]] inline std::vector<std::size_t> torch_permutation(std::size_t size,
                                                                std::uint64_t seed) {
  constexpr std::size_t most = UINT32_MAX / 20;
  parallel::require(size < most, "an epoch of ", size, " examples; at most ", most - 1,
                    " can be shuffled");
  std::vector<std::size_t> out(size);
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::mt19937 generator(static_cast<std::uint32_t>(seed));
  for (std::size_t i = 0; i + 1 < size; ++i) std::swap(out[i], out[i + generator() % (size - i)]);
  return out;
}

}  // namespace mpt::finetune
