// The position information of attention: ALiBi slopes (Press, Smith, Lewis, 2022, section 3), as
// MPT computes them, and frequencies of rotary positions: frequency[i] = theta^(-2i/D), scaled as
// the configuration says.
//
// Linear scaling divides all frequencies by the factor. Llama 3.1's scaling divides only those of
// long wavelengths, which turn less than once in the sequence length of training, with a smooth
// transition. YaRN does so too, with a transition that is linear in the index i. The formulas are
// those of transformers' modeling_rope_utils, computed in double.
#pragma once

#include <cstdint>
#include <vector>

#include <mpt/config/model/attention.hpp>
#include <parallel/ops/attention/rope.hpp>

namespace mpt {

/// Frequencies of the pairs of a head that are turned, in radians per position: head_dim / 2 of
/// them, or rotary_dim / 2.
[[nodiscard]] std::vector<double> rotary_frequencies(rope_config const& rope,
                                                     std::int64_t head_dim);

/// xPos's logarithmic growth of the same pairs per position, ln((2i + 0.4 D) / 1.4 D) /
/// xpos_scale_base (Sun et al., 2022, with flash-attention's constants). It is negative: queries of
/// later positions are shorter and keys longer. Empty without xPos.
[[nodiscard]] std::vector<double> rotary_growths(rope_config const& rope, std::int64_t head_dim);

/// One slope per head. With H2 the next power of two at or above `heads`, slope_i =
/// 2^(-i·bias_max/H2) for i = 1..H2. When H2 differs from `heads`, the slopes at even i come first,
/// then those at odd i, and the first `heads` of them are used.
[[nodiscard]] std::vector<float> alibi_slopes(int heads, double bias_max);

}  // namespace mpt
