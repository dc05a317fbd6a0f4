// temperature: scales queries by a factor that grows with the logarithm of their position, so that
// attention stays sharp in long texts (Nakanishi, "Scalable-Softmax Is Superior for Attention",
// 2025, as in Llama 4).
//
// Row r is multiplied by 1 + scale · ln(floor((p + 1) / floor_scale) + 1), where p is its position.
// The factor does not depend on the row's elements, so the gradient is multiplied by the same
// factor. T is float, bf16 or double; the factor is computed in double. Cost: one pass over memory.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include <parallel/core/config.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::ops {

struct temperature_options {
  double scale = 0.0;           ///< 0: every factor is 1
  double floor_scale = 8192.0;  ///< positions between two steps of the factor
  index sequence = 1;           ///< rows of one sequence
  index first = 0;              ///< position of the first row of every sequence
  /// [rows]: the position at which a row's document begins, from which the row's position is
  /// counted; empty: each sequence is one document. Not copied: it must live until the operation
  /// has run.
  std::span<std::int32_t const> document_begins = {};
};

namespace detail {
/// The factor at a position that is counted from the beginning of its document.
[[nodiscard]] PARALLELLM_HOST_DEVICE inline double position_factor(
    temperature_options const& options, index position) {
  double const steps = std::floor(static_cast<double>(position + 1) / options.floor_scale);
  return 1.0 + options.scale * std::log(steps + 1.0);
}
[[nodiscard]] inline double row_factor(temperature_options const& options, index r) {
  index position = options.first + r % options.sequence;
  if (!options.document_begins.empty())
    position -= options.document_begins[static_cast<std::size_t>(r)];
  return position_factor(options, position);
}
}  // namespace detail

template <class T>
struct temperature_arguments {
  static constexpr char const* name = "temperature";
  rows_view<T> y;
  temperature_options options;

  [[nodiscard]] auto operands() const { return std::tuple(updates(y)); }
  [[nodiscard]] std::uint64_t flops() const {
    return static_cast<std::uint64_t>(y.rows * y.columns);
  }
  [[nodiscard]] index parts() const { return y.rows; }
  void compute(index r) const {
    using A = accumulate_t<T>;
    auto const factor = static_cast<A>(detail::row_factor(options, r));
    for (index i = 0; i < y.columns; ++i)
      y.row(r)[i] = static_cast<T>(static_cast<A>(y.row(r)[i]) * factor);
  }
};

struct temperature_fn {
  template <class Stream, class T>
  void operator()(Stream& s, rows_view<T> y, temperature_options options) const {
    require(options.floor_scale > 0.0, "ops::temperature: floor_scale is ", options.floor_scale,
            ", but must be above 0");
    auto const documents = static_cast<index>(options.document_begins.size());
    require(documents == 0 || documents == y.rows, "ops::temperature: there are ", documents,
            " document_begins for ", y.rows, " rows; give one per row, or none");
    run_operation(s, temperature_arguments<T>{y, options});
  }
};
/// temperature(s, y, options): multiplies the rows of y, or of its gradient, by their factors, in
/// place.
inline constexpr temperature_fn temperature{};

}  // namespace parallel::ops
