// step_limits: upper limits of a step's loss and gradient norm. A step above a limit does not
// update parameters or optimizer states.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include <parallel/core/hash.hpp>

namespace parallel::train {

/// Upper limits of a step's results, which are means over the loss tokens of the global batch.
/// Infinity is no limit.
struct step_limits {
  double loss = std::numeric_limits<double>::infinity();
  double gradient_norm = std::numeric_limits<double>::infinity();  ///< before clipping

  [[nodiscard]] bool has_limit() const { return *this != step_limits{}; }

  /// A hash of the limits; 0 if there are none.
  [[nodiscard]] std::uint32_t fingerprint() const {
    if (!has_limit()) return 0;
    auto const bits = std::bit_cast<std::array<char, sizeof(step_limits)>>(*this);
    auto const hash = fnv1a(std::string_view(bits.data(), bits.size()));
    return static_cast<std::uint32_t>(hash ^ (hash >> 32)) | 1U;
  }

  friend bool operator==(step_limits const&, step_limits const&) = default;
};

/// The outcome of a step: it updated the parameters and optimizer states, or why it did not.
enum class step_outcome : std::uint8_t {
  updated,
  not_finite,   // the loss or the gradient norm is NaN or infinite
  above_limit,  // both are finite, and one of them is above its limit
  corrupted,    // corruption_check found wrong bits on a rank
  overflowed    // a buffer had no room for what came (model.hpp): the step must be made again
};

/// The outcome of a step with this mean loss and this norm of the mean gradient. A value equal to
/// its limit is allowed.
[[nodiscard]] inline step_outcome judge(double loss, double gradient_norm,
                                        step_limits const& limits) {
  if (!std::isfinite(loss) || !std::isfinite(gradient_norm)) return step_outcome::not_finite;
  bool const is_above_limit = loss > limits.loss || gradient_norm > limits.gradient_norm;
  return is_above_limit ? step_outcome::above_limit : step_outcome::updated;
}

}  // namespace parallel::train
