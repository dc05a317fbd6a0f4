// matmul: C = op(A) op(B), plus C or an optional addend; all matrices are row-major.
//
// T is float, bf16, double or std::uint64_t (modulo 2^64, for exact tests); C may be wider, of
// accumulate_t<T>: weight gradients accumulate in float from bf16 activations. Sums are accumulated
// in accumulate_t<T> and rounded once, after the addition of C or the addend. Cost: 2 m n k
// operations; engines run near the peak.
#pragma once

#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::ops {

struct matmul_options {
  bool transpose_a = false;  ///< A is stored [k, m]
  bool transpose_b = false;  ///< B is stored [n, k]
  bool accumulate = false;   ///< add to C instead of replacing it
};

namespace detail {

/// Rows [begin, end) of the product. The host device uses this too, for types without SIMD.
template <class C, class T>
void matmul_rows(index begin, index end, matrix_view<C> c, matrix_view<T const> a,
                 matrix_view<T const> b, matmul_options options, matrix_view<C const> addend) {
  using A = accumulate_t<T>;
  index const depth = a.extent(options.transpose_a ? 0 : 1);
  index const a_row = options.transpose_a ? 1 : depth;
  index const a_step = options.transpose_a ? a.extent(1) : 1;
  index const b_column = options.transpose_b ? depth : 1;
  index const b_step = options.transpose_b ? 1 : b.extent(1);
  for (index i = begin; i < end; ++i)
    for (index j = 0; j < c.extent(1); ++j) {
      A total = options.accumulate ? static_cast<A>(addend(i, j)) : A(0);
      for (index k = 0; k < depth; ++k)
        total += static_cast<A>(a.data()[i * a_row + k * a_step]) *
                 static_cast<A>(b.data()[j * b_column + k * b_step]);
      c(i, j) = static_cast<C>(total);
    }
}

}  // namespace detail

template <class C, class T>
struct matmul_arguments {
  static constexpr char const* name = "matmul";
  matrix_view<C> c;
  matrix_view<T const> a;
  matrix_view<T const> b;
  matmul_options options;
  matrix_view<C const> addend;

  [[nodiscard]] auto operands() const {
    bool const updates_c = options.accumulate && addend.data() == c.data();
    return std::tuple(updates_c ? meta::access_of(updates(c)) : meta::access_of(c), a, b, addend);
  }
  [[nodiscard]] std::uint64_t flops() const {
    return 2 * static_cast<std::uint64_t>(c.size()) *
           static_cast<std::uint64_t>(a.extent(options.transpose_a ? 0 : 1));
  }
  [[nodiscard]] index parts() const { return c.extent(0); }
  void compute(index row) const { detail::matmul_rows(row, row + 1, c, a, b, options, addend); }
};

/// matmul(s, c, a, b, {.transpose_a, .transpose_b, .accumulate}, addend): c [m, n] = op(a) [m, k]
/// op(b) [k, n], plus `addend` [m, n] of c's type unless it is empty, or plus c if `accumulate` is
/// set. c must not overlap a, b or the addend. Throws `error` before anything is enqueued when the
/// shapes do not fit.
///
/// In a device's run_operation(s, matmul_arguments<C, T>{c, a, b, options, addend}), `accumulate`
/// states whether a matrix is added, and `addend` which one: c itself, or another matrix.
inline constexpr auto matmul = []<class Stream, writable C, class TA, class TB>(
                                   Stream& s, matrix_view<C> c, matrix_view<TA> a,
                                   matrix_view<TB> b, matmul_options options = {},
                                   std::type_identity_t<matrix_view<C const>> addend = {}) {
  using T = std::remove_const_t<TA>;
  static_assert(std::is_same_v<T, std::remove_const_t<TB>>,
                "matmul: A and B must have the same element type");
  static_assert(
      std::is_same_v<C, T> || std::is_same_v<C, accumulate_t<T>>,
      "matmul: C must have the element type of A and B, or that in which they accumulate");
  index const depth_a = a.extent(options.transpose_a ? 0 : 1);
  index const depth_b = b.extent(options.transpose_b ? 1 : 0);
  detail::require_equal("matmul", "the number of rows of C", c.extent(0), "that of op(A)",
                        a.extent(options.transpose_a ? 1 : 0));
  detail::require_equal("matmul", "the number of columns of C", c.extent(1), "that of op(B)",
                        b.extent(options.transpose_b ? 0 : 1));
  detail::require_equal("matmul", "the number of columns of op(A)", depth_a,
                        "the number of rows of op(B)", depth_b);
  bool const adds_matrix = detail::has_addend("matmul", addend.extents(), c.extents());
  require(!adds_matrix || !options.accumulate, "ops::matmul: either C is added to, or an addend");
  if (options.accumulate) addend = c;
  options.accumulate |= adds_matrix;
  run_operation(s, matmul_arguments<C, T>{c, matrix_view<T const>(a), matrix_view<T const>(b),
                                          options, addend});
};

}  // namespace parallel::ops
