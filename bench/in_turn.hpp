// Comparing what is measured in turn: a shared machine is fast in one minute and slow in the next,
// so that only neighbours in time can be divided by each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace bench {

/// The middle one, the upper of two; of at least one.
[[nodiscard]] inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// The median over rounds of part / whole, each pair measured in one round.
[[nodiscard]] inline double median_share(std::span<double const> parts,
                                         std::span<double const> wholes) {
  std::vector<double> shares;
  for (std::size_t round = 0; round < wholes.size(); ++round)
    shares.push_back(parts[round] / wholes[round]);
  return median(std::move(shares));
}

}  // namespace bench
