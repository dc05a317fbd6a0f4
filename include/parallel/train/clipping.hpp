// Gradient clipping, as Composer's `gradient_clipping` algorithm does it.
//
//   norm      the whole gradient is scaled so that its norm is at most the threshold
//   value     every element is clamped to ± the threshold
//   adaptive  every row is scaled so that its norm is at most the threshold times the norm of the
//             row's weights (Brock et al., 2021, "High-performance large-scale image recognition
//             without normalization", equation 3; without their lower bound of the weights' norm)
//
// All mean the gradient of the mean loss. A row of adaptive clipping is everything under one index
// of a parameter's first dimension; a vector is one row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>

#include <parallel/core/error.hpp>

namespace parallel::train {

/// The rules by which gradients are clipped.
enum class clipping_kind : std::uint8_t { none, norm, value, adaptive };

struct clipping {
  clipping_kind kind = clipping_kind::none;
  double threshold = 0.0;

  /// The threshold of the norm of the whole gradient; an infinite one clips nothing.
  [[nodiscard]] double norm_threshold() const {
    return kind == clipping_kind::norm ? threshold : std::numeric_limits<double>::infinity();
  }
  friend bool operator==(clipping const&, clipping const&) = default;
};

[[nodiscard]] constexpr std::string_view to_string(clipping_kind kind) {
  constexpr std::string_view names[] = {"none", "norm", "value", "adaptive"};
  return names[static_cast<std::size_t>(kind) % std::size(names)];
}

/// Throws unless the threshold is positive: a negative one would reverse gradients.
inline void require_threshold(clipping const& rule) {
  require(rule.kind == clipping_kind::none || rule.threshold > 0,
          "stepper_options::clip: the threshold of ", to_string(rule.kind), " is ", rule.threshold,
          "; it must be above 0");
}

/// The factor of adaptive clipping for a row, from the norms of its weights and of its gradient.
[[nodiscard]] inline double adaptive_factor(double weights, double gradient, double threshold) {
  double const factor = threshold * weights / gradient;
  return std::isnan(factor) ? 1.0 : std::min(1.0, factor);  // 0/0: nothing to scale
}

}  // namespace parallel::train
