// router_logits: the scores of every row for every expert before softmax, W x for the router's W.
//
// A choice of experts is not continuous: one changed bit may change an expert. So each result has
// one order of sums, whatever other rows, threads or ranks there are: element n of a row is added
// to sum n % 8, and the eight sums are added by halves. Products of floats are exact in double, in
// which sums are kept, so fused and separate multiplications give the same bits too. Cost: 2 M D E
// operations in double.
#pragma once

#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

namespace detail {

/// The type in which router_logits adds: double, or the element itself for exact rings.
template <class T>
using router_sum_t = std::conditional_t<std::is_integral_v<T>, T, double>;

/// The sum of x[n] w[n] over `width` elements, in the order that the header describes.
template <class T>
[[nodiscard]] PARALLELLM_HOST_DEVICE router_sum_t<T> router_product(T const* x, T const* w,
                                                                    index width) {
  using sum = router_sum_t<T>;
  sum sums[8] = {};
  for (index n = 0; n < width; ++n) sums[n % 8] += sum(x[n]) * sum(w[n]);
  for (int half = 4; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

}  // namespace detail

template <class T>
struct router_logits_arguments {
  static constexpr char const* name = "router_logits";
  matrix_view<accumulate_t<T>> logits;
  matrix_view<T const> x;
  matrix_view<T const> weight;

  [[nodiscard]] auto operands() const { return std::tuple(logits, x, weight); }
  [[nodiscard]] std::uint64_t flops() const {
    return 2 * static_cast<std::uint64_t>(logits.size()) * static_cast<std::uint64_t>(x.extent(1));
  }
  [[nodiscard]] index parts() const { return logits.extent(0); }
  void compute(index m) const {
    index const width = x.extent(1);
    for (index e = 0; e < logits.extent(1); ++e)
      logits(m, e) = static_cast<accumulate_t<T>>(
          detail::router_product(x.data() + m * width, weight.data() + e * width, width));
  }
};

/// router_logits(s, logits, x, weight): logits [M,E] = x [M,D] weightᵀ for weight [E,D].
inline constexpr auto router_logits = []<class Stream, class T>(
                                          Stream& s,
                                          matrix_view<accumulate_t<std::remove_const_t<T>>> logits,
                                          matrix_view<T> x,
                                          matrix_view<std::remove_const_t<T> const> weight) {
  auto constexpr name = "router_logits";
  detail::require_equal(name, "the number of rows of logits", logits.extent(0), "that of x",
                        x.extent(0));
  detail::require_equal(name, "the number of columns of logits", logits.extent(1),
                        "the number of rows of the weight", weight.extent(0));
  detail::require_equal(name, "the width of x", x.extent(1), "that of the weight",
                        weight.extent(1));
  using element = std::remove_const_t<T>;
  run_operation(s, router_logits_arguments<element>{logits, matrix_view<element const>(x), weight});
};

}  // namespace parallel::ops
