// affine: y = x Wᵀ + b, plus an optional addend: a linear layer with a bias; and the gradients of
// its weight and bias.
//
// A device whose matrix products add a bias, and sum its gradient, at no extra cost declares this
// by adds_bias_in_products and gets one operation. On other devices the operation is matmul
// followed by add_bias, which reads and writes y again, or by add_bias_backward, which reads dy
// again. T is as for matmul; W is stored as [out, in]. Cost: 2 m in out operations each.
#pragma once

#include <type_traits>

#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/operation.hpp>
#include <parallel/ops/pointwise/bias.hpp>

namespace parallel::ops {

/// Whether streams of this kind have run_operation(s, affine_arguments<T>) and
/// run_operation(s, affine_backward_weight_arguments<T>).
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

/// affine(s, y, x, W, bias, addend): y [m, out] = x [m, in] W [out, in]ᵀ + bias [out], plus
/// `addend` [m, out] unless it is empty. The result is rounded once, or twice on devices that add
/// bias and addend after the product. y must not overlap any other argument.
inline constexpr auto affine = []<class Stream, writable T>(
                                   Stream& s, matrix_view<T> y,
                                   matrix_view<std::type_identity_t<T> const> x,
                                   matrix_view<std::type_identity_t<T> const> weight,
                                   vector_view<std::type_identity_t<T> const> bias,
                                   std::type_identity_t<matrix_view<T const>> addend = {}) {
  if constexpr (adds_bias_in_products<Stream, T>) {
    detail::require_equal("affine", "the number of rows of y", y.extent(0), "that of x",
                          x.extent(0));
    detail::require_equal("affine", "the number of columns of y", y.extent(1),
                          "the number of rows of W", weight.extent(0));
    detail::require_equal("affine", "the number of columns of x", x.extent(1), "that of W",
                          weight.extent(1));
    detail::require_equal("affine", "the number of columns of y", y.extent(1), "the size of bias",
                          bias.extent(0));
    static_cast<void>(detail::has_addend("affine", addend.extents(), y.extents()));
    run_operation(s, affine_arguments<T>{y, x, weight, bias, addend});
  } else {
    matmul(s, y, x, weight, {.transpose_b = true});
    add_bias(s, y, bias, addend);
  }
};

template <class T>
struct affine_backward_weight_arguments {
  static constexpr char const* name = "affine_backward_weight";
  matrix_view<accumulate_t<T>> dweight;
  vector_view<accumulate_t<T>> dbias;
  matrix_view<T const> dy;
  matrix_view<T const> x;
  bool accumulate;  ///< whether the product is added to dweight; dbias is always added to

  [[nodiscard]] auto operands() const {
    return std::tuple(accumulate ? meta::access_of(updates(dweight)) : meta::access_of(dweight),
                      updates(dbias), dy, x);
  }
  [[nodiscard]] std::uint64_t flops() const {
    return 2 * static_cast<std::uint64_t>(dweight.size() * dy.extent(0)) +
           static_cast<std::uint64_t>(dy.size());
  }
  [[nodiscard]] index parts() const { return dweight.extent(0); }
  void compute(index n) const {
    matmul_options const product{.transpose_a = true, .accumulate = accumulate};
    detail::matmul_rows<accumulate_t<T>>(n, n + 1, dweight, dy, x, product, dweight);
    add_bias_backward_arguments<T>{dbias, dy}.compute(n);
  }
};

/// affine_backward_weight(s, dweight, dbias, dy, x, accumulate): dweight [out, in] = dy [m, out]ᵀ x
/// [m, in], added to the previous dweight if `accumulate` is set, and dbias [out] += the column
/// sums of dy. Both gradients are accumulate_t<T>. The order of summation depends on the shape
/// alone, or on the tuned algorithm.
inline constexpr auto affine_backward_weight = []<class Stream, class A, class T>(
                                                   Stream& s, matrix_view<A> dweight,
                                                   vector_view<A> dbias, matrix_view<T> dy,
                                                   matrix_view<T> x, bool accumulate) {
  using element = std::remove_const_t<T>;
  if constexpr (adds_bias_in_products<Stream, element>) {
    auto constexpr name = "affine_backward_weight";
    detail::require_equal(name, "the number of rows of dy", dy.extent(0), "that of x", x.extent(0));
    detail::require_equal(name, "the number of columns of dy", dy.extent(1),
                          "the number of rows of dweight", dweight.extent(0));
    detail::require_equal(name, "the number of columns of x", x.extent(1), "that of dweight",
                          dweight.extent(1));
    detail::require_equal(name, "the number of columns of dy", dy.extent(1), "the size of dbias",
                          dbias.extent(0));
    run_operation(
        s, affine_backward_weight_arguments<element>{dweight, dbias, matrix_view<element const>(dy),
                                                     matrix_view<element const>(x), accumulate});
  } else {
    matmul(s, dweight, dy, x, {.transpose_a = true, .accumulate = accumulate});
    add_bias_backward(s, dbias, dy);
  }
};

}  // namespace parallel::ops
