// ALiBi slopes (Press, Smith, Lewis, 2022, section 3), as MPT computes them.
#pragma once

#include <vector>

namespace mpt {

/// One slope per head. With H2 the next power of two at or above `heads`, slope_i =
/// 2^(-i·bias_max/H2) for i = 1..H2. When H2 differs from `heads`, the slopes at even i come first,
/// then those at odd i, and the first `heads` of them are used.
[[nodiscard]] std::vector<float> alibi_slopes(int heads, double bias_max);

}  // namespace mpt
