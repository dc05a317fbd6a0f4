// packing_ratio: auto: the most examples a row that packing places without leaving any over.
//
// LLM Foundry's search (auto_packing_ratio): up to 20 ratios from 1 to max_seq_len / 100 are tried
// in turn on the first hundred batches of the largest; the last one counts before the first that
// leaves something over. Data behind those batches may still leave bins over. Every rank finds the
// same, since the lengths of all examples are known everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <mpt/finetune/bin_packing.hpp>

namespace mpt::finetune {

/// What one ratio did to a sample of the data.
struct packing_profile {
  double ratio = 1;
  double padding = 0;  ///< share of rows' places without a token
  double waste = 0;    ///< share of tokens that were left over at the end
};

/// Tries ratios on examples of `tokens` ids, in that order, in batches of `rows` rows of
/// `row_tokens`. Ratios for which the examples do not fill a batch are left out, and those after.
[[nodiscard]] std::vector<packing_profile> profile_packing(std::span<std::uint32_t const> tokens,
                                                           std::size_t rows, std::size_t row_tokens,
                                                           std::size_t tries = 20);

/// The ratio that `packing_ratio: auto` stands for; 1 for rows of up to 100 tokens.
[[nodiscard]] double auto_packing_ratio(std::span<std::uint32_t const> tokens, std::size_t rows,
                                        std::size_t row_tokens);

/// auto_packing_ratio of data that a run shuffles by `seed`: the first epoch's order decides which
/// are tried.
[[nodiscard]] double auto_packing_ratio_of_shuffled(std::span<std::uint32_t const> tokens,
                                                    std::uint64_t seed, std::size_t rows,
                                                    std::size_t row_tokens);

}  // namespace mpt::finetune
