// Comparison of alternating measurements: the speed of a shared machine changes from minute to
// minute, so only measurements that are adjacent in time can be compared.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace bench {

/// The median of at least one value; of an even number the upper of the two middle ones.
[[nodiscard]] inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// The median over rounds of numerator / denominator, each pair measured in one round.
[[nodiscard]] inline double median_share(std::span<double const> numerators,
                                         std::span<double const> denominators) {
  std::vector<double> shares;
  for (std::size_t round = 0; round < denominators.size(); ++round)
    shares.push_back(numerators[round] / denominators[round]);
  return median(std::move(shares));
}

}  // namespace bench
