// The permutation that PyTorch's randperm draws on a CPU from a seed, number for number.
//
// LLM Foundry shuffles finetuning data by this permutation (DistributedSampler: a generator seeded
// with seed + epoch), so a global batch here holds the same rows as in LLM Foundry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// 0 .. size - 1 in random order. Error: size not below 2^32 / 20, from where PyTorch uses another
/// algorithm. Only the low 32 bits of the seed count, as in PyTorch. Cost: O(size).
[[nodiscard]] std::vector<std::size_t> torch_permutation(std::size_t size, std::uint64_t seed);

}  // namespace mpt::finetune
