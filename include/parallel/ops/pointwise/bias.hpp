// add_bias: y[m,:] += bias, plus an optional addend, and its gradient, the sums of columns. T is
// float, bf16, double or std::uint64_t. Cost: one pass over y (and the addend), or over dy.
#pragma once

#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

template <class T>
struct add_bias_arguments {
  static constexpr char const* name = "add_bias";
  matrix_view<T> y;
  vector_view<T const> bias;
  matrix_view<T const> addend;

  [[nodiscard]] auto operands() const { return std::tuple(updates(y), bias, addend); }
  [[nodiscard]] std::uint64_t flops() const {
    return static_cast<std::uint64_t>(y.size() + addend.size());
  }
  [[nodiscard]] index parts() const { return y.extent(0); }
  void compute(index m) const {
    using A = accumulate_t<T>;
    for (index n = 0; n < y.extent(1); ++n) {
      A total = A(y(m, n)) + A(bias(n));
      if (!addend.empty()) total += A(addend(m, n));
      y(m, n) = static_cast<T>(total);
    }
  }
};

/// add_bias(s, y, bias, addend): y[m,n] = y[m,n] + bias[n] + addend[m,n] for y, addend [M,N] and
/// bias [N], rounded once; without an addend y[m,n] += bias[n]. The addend must not overlap y.
inline constexpr auto add_bias = []<class Stream, writable T>(
                                     Stream& s, matrix_view<T> y,
                                     vector_view<std::type_identity_t<T> const> bias,
                                     std::type_identity_t<matrix_view<T const>> addend = {}) {
  detail::require_equal("add_bias", "the number of columns of y", y.extent(1), "the size of bias",
                        bias.extent(0));
  static_cast<void>(detail::has_addend("add_bias", addend.extents(), y.extents()));
  run_operation(s, add_bias_arguments<T>{y, bias, addend});
};

template <class T>
struct add_bias_backward_arguments {
  static constexpr char const* name = "add_bias_backward";
  vector_view<accumulate_t<T>> dbias;
  matrix_view<T const> dy;

  [[nodiscard]] auto operands() const { return std::tuple(updates(dbias), dy); }
  [[nodiscard]] std::uint64_t flops() const { return static_cast<std::uint64_t>(dy.size()); }
  [[nodiscard]] index parts() const { return dy.extent(1); }
  void compute(index n) const {
    using A = accumulate_t<T>;
    A total{};
    for (index m = 0; m < dy.extent(0); ++m) total += A(dy(m, n));
    dbias(n) += total;
  }
};

/// add_bias_backward(s, dbias, dy): dbias[n] += sum over m of dy[m,n], for dy [M,N] and dbias [N]
/// of accumulate_t<T>. The order of summation depends on the shape alone.
inline constexpr auto add_bias_backward =
    []<class Stream, class T>(Stream& s, vector_view<accumulate_t<T>> dbias, matrix_view<T> dy) {
      detail::require_equal("add_bias_backward", "the number of columns of dy", dy.extent(1),
                            "the size of dbias", dbias.extent(0));
      run_operation(s, add_bias_backward_arguments<std::remove_const_t<T>>{
                           dbias, matrix_view<std::remove_const_t<T> const>(dy)});
    };

}  // namespace parallel::ops
