// packing_ratio: auto: the most examples a row that packing places without leaving any over.
//
// LLM Foundry's search (auto_packing_ratio): up to 20 ratios from 1 to max_seq_len / 100 are tried
// in turn on the first hundred batches of the largest; the last one counts before the first that
// leaves something over. Data behind those batches may still leave bins over. Every rank finds the
// same, since the lengths of all examples are known everywhere.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include <mpt/finetune/bin_packing.hpp>
#include <mpt/finetune/torch_permutation.hpp>

namespace mpt::finetune {

/// What one ratio did to a sample of the data.
struct packing_profile {
  double ratio = 1;
  double padding = 0;  ///< share of rows' places without a token
  double waste = 0;    ///< share of tokens that were left over at the end
};

/// Tries ratios on examples of `tokens` ids, in that order, in batches of `rows` rows of
/// `row_tokens`. Ratios for which the examples do not fill a batch are left out, and those after.
[[nodiscard]] inline std::vector<packing_profile> profile_packing(
    std::span<std::uint32_t const> tokens, std::size_t rows, std::size_t row_tokens,
    std::size_t tries = 20) {
  parallel::require(rows > 0 && row_tokens > 100 && tries > 1,
                    "packing is profiled for at least one row of more than 100 tokens, found ",
                    rows, " of ", row_tokens);
  struct candidate {
    double ratio;
    std::size_t drawn;
  };
  std::vector<candidate> candidates;
  double const largest = static_cast<double>(row_tokens) / 100;
  double const step = (largest - 1) / static_cast<double>(tries - 1);
  for (std::size_t i = 0; i < tries; ++i) {
    double const exact = i + 1 == tries ? largest : static_cast<double>(i) * step + 1;
    double const ratio = std::nearbyint(10 * exact) / 10;
    auto const drawn = static_cast<std::size_t>(ratio * static_cast<double>(rows));
    bool const known = std::ranges::find(candidates, drawn, &candidate::drawn) != candidates.end();
    if (!known) candidates.push_back({ratio, drawn});
  }
  std::size_t most = 0;
  for (auto const& one : candidates) most = std::max(most, one.drawn);
  tokens = tokens.first(std::min(tokens.size(), 100 * most));
  std::vector<std::size_t> numbers(tokens.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  std::vector<packing_profile> out;
  for (auto const& one : candidates) {
    bin_packer packer(rows, row_tokens);
    for (std::size_t first = 0; first < numbers.size(); first += one.drawn) {
      auto const count = std::min(one.drawn, numbers.size() - first);
      if (count >= rows) (void)packer.pack(std::span(numbers).subspan(first, count), tokens);
    }
    if (!packer.waste()) break;
    out.push_back({one.ratio, 1 - *packer.efficiency(), *packer.waste()});
  }
  return out;
}

/// The ratio that `packing_ratio: auto` stands for; 1 for rows of up to 100 tokens.
[[nodiscard]] inline double auto_packing_ratio(std::span<std::uint32_t const> tokens,
                                               std::size_t rows, std::size_t row_tokens) {
  double ratio = 1;
  if (row_tokens <= 100) return ratio;
  for (auto const& one : profile_packing(tokens, rows, row_tokens)) {
    if (one.waste > 0) break;
    ratio = one.ratio;
  }
  return ratio;
}

/// auto_packing_ratio of data that a run shuffles by `seed`: the first epoch's order decides which
/// are tried.
[[nodiscard]] inline double auto_packing_ratio_of_shuffled(std::span<std::uint32_t const> tokens,
                                                           std::uint64_t seed, std::size_t rows,
                                                           std::size_t row_tokens) {
  std::vector<std::uint32_t> shuffled;
  for (auto const at : torch_permutation(tokens.size(), seed)) shuffled.push_back(tokens[at]);
  return auto_packing_ratio(shuffled, rows, row_tokens);
}

}  // namespace mpt::finetune
