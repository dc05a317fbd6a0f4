// matmul in plain loops: every element is one sum over k, in order, rounded once.
#pragma once

#include <parallel/ops/matmul.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

namespace detail {

/// Rows [begin, end) of the product: also what the host device does for types without SIMD.
template <class C, class T>
void matmul_rows(index begin, index end, matrix_view<C> c, matrix_view<T const> a,
                 matrix_view<T const> b, ops::matmul_options options, matrix_view<C const> addend) {
  using A = accumulate_t<T>;
  index const depth = a.extent(options.transpose_a ? 0 : 1);
  index const a_row = options.transpose_a ? 1 : depth;
  index const a_step = options.transpose_a ? a.extent(1) : 1;
  index const b_column = options.transpose_b ? depth : 1;
  index const b_step = options.transpose_b ? 1 : b.extent(1);
  for (index i = begin; i < end; ++i)
    for (index j = 0; j < c.extent(1); ++j) {
      A sum = options.accumulate ? static_cast<A>(addend(i, j)) : A(0);
      for (index k = 0; k < depth; ++k)
        sum += static_cast<A>(a.data()[i * a_row + k * a_step]) *
               static_cast<A>(b.data()[j * b_column + k * b_step]);
      c(i, j) = static_cast<C>(sum);
    }
}

}  // namespace detail

template <class C, class T>
void matmul_impl(stream&, matrix_view<C> c, matrix_view<T const> a, matrix_view<T const> b,
                 ops::matmul_options options, matrix_view<std::type_identity_t<C> const> addend) {
  detail::matmul_rows(0, c.extent(0), c, a, b, options, addend);
}

}  // namespace parallel::reference
