#include <mpt/finetune/packing_ratio.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <mpt/finetune/batch_order.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

std::vector<packing_profile> profile_packing(std::span<std::uint32_t const> tokens,
                                             std::size_t rows, std::size_t row_tokens,
                                             std::size_t max_ratios) {
  parallel::require(rows > 0 && row_tokens > 100 && max_ratios > 1,
                    "packing is profiled for at least one row of more than 100 tokens, found ",
                    rows, " of ", row_tokens);
  struct candidate {
    double ratio;
    std::size_t drawn;
  };
  std::vector<candidate> candidates;
  double const largest = static_cast<double>(row_tokens) / 100;
  double const step = (largest - 1) / static_cast<double>(max_ratios - 1);
  for (std::size_t i = 0; i < max_ratios; ++i) {
    double const exact = i + 1 == max_ratios ? largest : static_cast<double>(i) * step + 1;
    double const ratio = std::nearbyint(10 * exact) / 10;
    auto const drawn = static_cast<std::size_t>(ratio * static_cast<double>(rows));
    bool const is_known =
        std::ranges::find(candidates, drawn, &candidate::drawn) != candidates.end();
    if (!is_known) candidates.push_back({ratio, drawn});
  }
  std::size_t max_drawn = 0;
  for (auto const& tried : candidates) max_drawn = std::max(max_drawn, tried.drawn);
  tokens = tokens.first(std::min(tokens.size(), 100 * max_drawn));
  std::vector<std::size_t> examples(tokens.size());
  std::iota(examples.begin(), examples.end(), std::size_t{0});
  std::vector<packing_profile> profiles;
  for (auto const& tried : candidates) {
    bin_packer packer(rows, row_tokens);
    for (std::size_t first = 0; first < examples.size(); first += tried.drawn) {
      auto const count = std::min(tried.drawn, examples.size() - first);
      if (count >= rows) (void)packer.pack(std::span(examples).subspan(first, count), tokens);
    }
    if (!packer.waste()) break;
    profiles.push_back({tried.ratio, 1 - *packer.efficiency(), *packer.waste()});
  }
  return profiles;
}

double auto_packing_ratio(std::span<std::uint32_t const> tokens, std::size_t rows,
                          std::size_t row_tokens) {
  double ratio = 1;
  if (row_tokens <= 100) return ratio;
  for (auto const& tried : profile_packing(tokens, rows, row_tokens)) {
    if (tried.waste > 0) break;
    ratio = tried.ratio;
  }
  return ratio;
}

double auto_packing_ratio_of_shuffled(std::span<std::uint32_t const> tokens, std::uint64_t seed,
                                      std::size_t rows, std::size_t row_tokens) {
  std::vector<std::uint32_t> shuffled;
  for (auto const example : torch_permutation(tokens.size(), seed))
    shuffled.push_back(tokens[example]);
  return auto_packing_ratio(shuffled, rows, row_tokens);
}

}  // namespace mpt::finetune
