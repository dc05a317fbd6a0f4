// jitter: y = x u with u uniform in [1 - eps, 1 + eps), the noise on a router's input in training
// (Fedus, Zoph, Shazeer, 2021, arXiv 2101.03961, section 2.2).
//
// As in dropout, u is a function of the Philox key and the global element index, so that the
// backward pass is the same call on dy, and every layout has the same noise. T is float, bf16 or
// double. Cost: one Philox block and 3 operations an element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

struct jitter_options {
  float eps = 0.0F;                 ///< in [0, 1)
  philox random = philox(0, 0);     ///< key of this seed, operation and step
  std::uint64_t first_element = 0;  ///< global index of x[0]

  /// Element i of y, for element i of x.
  template <class T>
  [[nodiscard]] PARALLELLM_HOST_DEVICE T apply(T x, std::size_t i) const {
    using A = accumulate_t<T>;
    float const uniform = random.uniform(first_element + i);
    return static_cast<T>(A(x) * A(1.0F - eps + uniform * (2.0F * eps)));
  }
};

template <class T>
struct jitter_arguments {
  static constexpr char const* name = "jitter";
  std::span<T> y;
  std::span<T const> x;
  jitter_options options;

  [[nodiscard]] auto operands() const { return std::tuple(y, x); }
  [[nodiscard]] std::uint64_t flops() const { return 3 * y.size(); }
  [[nodiscard]] index parts() const { return detail::run_count(y); }
  void compute(index part) const {
    detail::for_each_in_run(part, y, [&](std::size_t i) { y[i] = options.apply(x[i], i); });
  }
};

/// jitter(s, y, x, {.eps, .random, .first_element}): y[i] = x[i] times a number that is uniform in
/// [1 - eps, 1 + eps); y may be x.
inline constexpr auto jitter = []<class Stream, writable T>(
                                   Stream& s, std::span<T> y,
                                   std::span<std::type_identity_t<T> const> x,
                                   jitter_options options) {
  detail::require_equal("jitter", "the size of y", y.size(), "that of x", x.size());
  require(options.eps >= 0.0F && options.eps < 1.0F, "ops::jitter: eps is ", options.eps,
          ", but must be in [0, 1)");
  run_operation(s, jitter_arguments<T>{y, x, options});
};

}  // namespace parallel::ops
