// The permutation that PyTorch's randperm draws on a CPU from a seed, number for number.
//
// LLM Foundry shuffles finetuning data by it (DistributedSampler: a generator seeded with seed +
// epoch), so with it a global batch holds the rows that it holds there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// 0 .. size - 1 in random order; size below 2^32 / 20, above which PyTorch draws otherwise. Only
/// the low 32 bits of the seed count, as there. Cost: O(size).
[[nodiscard]] std::vector<std::size_t> torch_permutation(std::size_t size, std::uint64_t seed);

}  // namespace mpt::finetune
