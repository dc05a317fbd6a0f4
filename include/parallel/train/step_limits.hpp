// step_limits: limits of a step's loss and gradient; a step above them updates nothing.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include <parallel/core/hash.hpp>

namespace parallel::train {

/// Limits of the means over the loss tokens of the global batch; infinite: no limit.
struct step_limits {
  double loss = std::numeric_limits<double>::infinity();
  double gradient_norm = std::numeric_limits<double>::infinity();  // before clipping

  /// Whether there is a limit.
  [[nodiscard]] bool any() const { return *this != step_limits{}; }

  /// A number that differs between different limits; 0: there are none.
  [[nodiscard]] std::uint32_t fingerprint() const {
    if (!any()) return 0;
    auto const bits = std::bit_cast<std::array<char, sizeof(step_limits)>>(*this);
    auto const hash = fnv1a(std::string_view(bits.data(), bits.size()));
    return static_cast<std::uint32_t>(hash ^ (hash >> 32)) | 1U;
  }

  friend bool operator==(step_limits const&, step_limits const&) = default;
};

/// The outcome of a step: it updated parameters and states, or the reason why it did not.
enum class step_outcome : std::uint8_t {
  updated,
  not_finite,   // its loss or gradient is NaN or infinite
  above_limit,  // both are numbers, and one is above its limit
  corrupted     // a rank has bits other than it should (corruption_check)
};

/// The outcome of a step with this mean loss and norm of the mean gradient. A step at its limit
/// updates.
[[nodiscard]] inline step_outcome judge(double loss, double gradient_norm,
                                        step_limits const& limits) {
  if (!std::isfinite(loss) || !std::isfinite(gradient_norm)) return step_outcome::not_finite;
  bool const is_above_limit = loss > limits.loss || gradient_norm > limits.gradient_norm;
  return is_above_limit ? step_outcome::above_limit : step_outcome::updated;
}

}  // namespace parallel::train
