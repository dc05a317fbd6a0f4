// ALiBi slopes (Press, Smith, Lewis, 2022, section 3), as MPT computes them.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace mpt {

/// One slope per head. With H2 the next power of two at or above `heads`, slope_i =
/// 2^(-i·bias_max/H2) for i = 1..H2. When H2 differs from `heads`, the slopes at even i come first,
/// then those at odd i, and the first `heads` of them are used.
[[nodiscard]] inline std::vector<float> alibi_slopes(int heads, double bias_max) {
  int power = 1;
  while (power < heads) power *= 2;
  auto const slope = [&](int i) { return static_cast<float>(std::exp2(-i * bias_max / power)); };
  std::vector<float> slopes;
  if (power == heads) {
    for (int i = 1; i <= power; ++i) slopes.push_back(slope(i));
    return slopes;
  }
  for (int i = 2; i <= power; i += 2) slopes.push_back(slope(i));
  for (int i = 1; i <= power; i += 2) slopes.push_back(slope(i));
  slopes.resize(static_cast<std::size_t>(heads));
  return slopes;
}

}  // namespace mpt
