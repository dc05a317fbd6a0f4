#include <mpt/finetune/packing_ratio.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <mpt/finetune/torch_permutation.hpp>

namespace mpt::finetune {

std::vector<packing_profile> profile_packing(std::span<std::uint32_t const> tokens,
                                             std::size_t rows, std::size_t row_tokens,
                                             std::size_t tries) {
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

double auto_packing_ratio(std::span<std::uint32_t const> tokens, std::size_t rows,
                          std::size_t row_tokens) {
  double ratio = 1;
  if (row_tokens <= 100) return ratio;
  for (auto const& one : profile_packing(tokens, rows, row_tokens)) {
    if (one.waste > 0) break;
    ratio = one.ratio;
  }
  return ratio;
}

double auto_packing_ratio_of_shuffled(std::span<std::uint32_t const> tokens, std::uint64_t seed,
                                      std::size_t rows, std::size_t row_tokens) {
  std::vector<std::uint32_t> shuffled;
  for (auto const at : torch_permutation(tokens.size(), seed)) shuffled.push_back(tokens[at]);
  return auto_packing_ratio(shuffled, rows, row_tokens);
}

}  // namespace mpt::finetune
