// step_totals, gradient_scale: the totals of a training step, computed on the device that holds its
// gradients: the numbers that are summed over ranks, as one array, and the factor of the optimizer
// that follows from the sums. So the host enqueues a whole step without waiting for a number.
//
//   norm  = sqrt(squared norm) / tokens, of the mean gradient
//   scale = min(1, threshold / (norm + 1e-6)) / tokens
//
// L is double or std::uint64_t (modulo 2^64). Cost: some nanoseconds a microbatch, on one thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include <parallel/core/config.hpp>
#include <parallel/core/statistics.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

/// The numbers that are summed over ranks element by element: loss, tokens, correct, squared norm,
/// and the number of ranks that ask to stop, which the host writes. Counts are exact up to 2^53.
template <class L>
struct step_sums {
  L values[5] = {};

  [[nodiscard]] std::span<L> span() { return values; }
  [[nodiscard]] statistics<L> statistics_of_tokens() const {
    return {values[0], static_cast<std::int64_t>(values[1]), static_cast<std::int64_t>(values[2])};
  }
  [[nodiscard]] L squared_norm() const { return values[3]; }
  [[nodiscard]] L& stop_requests() { return values[4]; }
  [[nodiscard]] bool stop_requested() const { return values[4] != L{}; }
};

/// The norm of the mean gradient, and the factor by which the sum of gradients is multiplied.
struct gradient_size {
  double norm = 0;
  double scale = 1;
};

namespace detail {

template <class L>
PARALLELLM_HOST_DEVICE void add_up_step(step_sums<L>* out, statistics<L> const* microbatches,
                                        index count, L const* squares) {
  statistics<L> step_statistics;
  for (index i = 0; i < count; ++i) step_statistics += microbatches[i];
  out->values[0] = step_statistics.loss;
  out->values[1] = static_cast<L>(step_statistics.tokens);
  out->values[2] = static_cast<L>(step_statistics.correct);
  out->values[3] = *squares;
}

}  // namespace detail

/// The formulas above; if there are no loss tokens, tokens = 1. An infinite threshold clips
/// nothing.
[[nodiscard]] PARALLELLM_HOST_DEVICE inline gradient_size size_of_gradient(
    step_sums<double> const& sums, double threshold) {
  double const tokens = sums.values[1] > 0 ? sums.values[1] : 1.0;
  double const norm = std::sqrt(sums.values[3]) / tokens;
  double const factor = threshold / (norm + 1e-6);
  return {norm, (factor < 1.0 ? factor : 1.0) / tokens};
}

template <class L>
struct step_totals_arguments {
  static constexpr char const* name = "step_totals";
  step_sums<L>* out;
  std::span<statistics<L> const> microbatches;
  L const* squares;

  void compute() const {
    detail::add_up_step(out, microbatches.data(), std::ssize(microbatches), squares);
  }
};

/// step_totals(s, out, microbatches, squares): *out = the sums of the microbatches, added in order,
/// with *squares as the squared norm; the number of stop requests is unchanged.
inline constexpr auto step_totals = []<class Stream, class L>(Stream& s, step_sums<L>* out,
                                                              std::span<statistics<L>> microbatches,
                                                              L const* squares) {
  run_operation(
      s, step_totals_arguments<L>{out, std::span<statistics<L> const>(microbatches), squares});
};

template <class A>
struct gradient_scale_arguments {
  static constexpr char const* name = "gradient_scale";
  A* out;
  step_sums<double> const* sums;
  double threshold;

  void compute() const { *out = static_cast<A>(size_of_gradient(*sums, threshold).scale); }
};

/// gradient_scale(s, out, sums, threshold): *out = size_of_gradient(*sums, threshold).scale. A
/// is float or double.
inline constexpr auto gradient_scale =
    []<class Stream, class A>(Stream& s, A* out, step_sums<double> const* sums, double threshold) {
      run_operation(s, gradient_scale_arguments<A>{out, sums, threshold});
    };

}  // namespace parallel::ops
