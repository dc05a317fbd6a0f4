// affine: y = x Wᵀ + b, plus another matrix where asked: a linear layer with a bias.
//
// A device whose products add biases for nothing says so (adds_bias_in_products) and is given it
// whole; on any other it is matmul and then add_bias, which reads and writes y once more. T as for
// matmul, W stored [out, in]. Cost: 2 m out in operations.
#pragma once

#include <type_traits>

#include <parallel/core/tensor.hpp>
#include <parallel/ops/bias.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

/// Whether streams of this kind have run_operation(s, affine_arguments<T>).
template <class Stream, class T>
inline constexpr bool adds_bias_in_products = false;

template <class T>
struct affine_arguments {
  static constexpr char const* name = "affine";
  matrix_view<T> y;
  matrix_view<T const> x;
  matrix_view<T const> weight;
  vector_view<T const> bias;
  matrix_view<T const> addend;

  [[nodiscard]] auto operands() const { return std::tuple(y, x, weight, bias, addend); }
  [[nodiscard]] std::uint64_t flops() const {
    return 2 * static_cast<std::uint64_t>(y.size() * x.extent(1)) +
           static_cast<std::uint64_t>(y.size());
  }
  [[nodiscard]] index parts() const { return y.extent(0); }
  void compute(index m) const {
    using A = accumulate_t<T>;
    for (index n = 0; n < y.extent(1); ++n) {
      A total = addend.empty() ? A(0) : A(addend(m, n));
      for (index k = 0; k < x.extent(1); ++k) total += A(x(m, k)) * A(weight(n, k));
      y(m, n) = static_cast<T>(total + A(bias(n)));
    }
  }
};

struct affine_fn {
  template <class Stream, writable T>
  void operator()(Stream& s, matrix_view<T> y, matrix_view<std::type_identity_t<T> const> x,
                  matrix_view<std::type_identity_t<T> const> weight,
                  vector_view<std::type_identity_t<T> const> bias,
                  std::type_identity_t<matrix_view<T const>> addend = {}) const {
    if constexpr (adds_bias_in_products<Stream, T>) {
      detail::same("affine", "the number of rows of y", y.extent(0), "that of x", x.extent(0));
      detail::same("affine", "the number of columns of y", y.extent(1), "the number of rows of W",
                   weight.extent(0));
      detail::same("affine", "the number of columns of x", x.extent(1), "that of W",
                   weight.extent(1));
      detail::same("affine", "the number of columns of y", y.extent(1), "the size of bias",
                   bias.extent(0));
      static_cast<void>(detail::adds("affine", addend.extents(), y.extents()));
      run_operation(s, affine_arguments<T>{y, x, weight, bias, addend});
    } else {
      matmul(s, y, x, weight, {.transpose_b = true});
      add_bias(s, y, bias, addend);
    }
  }
};
/// affine(s, y, x, W, bias, addend): y [m, out] = x [m, in] W [out, in]ᵀ + bias [out], plus
/// `addend` [m, out] where there is one. Rounded once, or where bias and addend are added
/// afterwards twice. y may not overlap any other.
inline constexpr affine_fn affine{};

}  // namespace parallel::ops
