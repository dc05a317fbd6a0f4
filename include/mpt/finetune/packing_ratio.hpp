// packing_ratio "auto": the most examples a row that packing places without leaving any over.
//
// The search is LLM Foundry's (auto_packing_ratio): up to 20 ratios from 1 to max_seq_len / 100 are
// tried in ascending order on the data of the first hundred batches of the largest ratio. The
// result is the last ratio before the first that leaves examples over. Later batches may still
// leave bins over. Every rank finds the same ratio, since it knows the lengths of all examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <mpt/finetune/bin_packing.hpp>

namespace mpt::finetune {

/// The result of packing a sample of the data with one ratio.
struct packing_profile {
  double ratio = 1;
  double padding = 0;  ///< share of the rows' positions without a token
  double waste = 0;    ///< share of tokens that were left over at the end
};

/// Tries ratios on examples whose lengths in ids are `tokens`, in this order, in batches of `rows`
/// rows of `row_tokens`. The profiles end before the first ratio for which the examples fill no
/// batch.
[[nodiscard]] std::vector<packing_profile> profile_packing(std::span<std::uint32_t const> tokens,
                                                           std::size_t rows, std::size_t row_tokens,
                                                           std::size_t max_ratios = 20);

/// The ratio that `packing_ratio: auto` stands for; 1 for rows of up to 100 tokens.
[[nodiscard]] double auto_packing_ratio(std::span<std::uint32_t const> tokens, std::size_t rows,
                                        std::size_t row_tokens);

/// auto_packing_ratio of data that a run shuffles by `seed`: the ratios are tried on the first
/// examples in the order of the first epoch.
[[nodiscard]] double auto_packing_ratio_of_shuffled(std::span<std::uint32_t const> tokens,
                                                    std::uint64_t seed, std::size_t rows,
                                                    std::size_t row_tokens);

}  // namespace mpt::finetune
