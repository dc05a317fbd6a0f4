// add_bias and its gradient in plain loops.
#pragma once

#include <parallel/ops/bias.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

template <class T>
void add_bias_impl(stream&, matrix_view<T> y, vector_view<T const> bias,
                   matrix_view<T const> addend) {
  using A = accumulate_t<T>;
  for (index m = 0; m < y.extent(0); ++m)
    for (index n = 0; n < y.extent(1); ++n) {
      A sum = A(y(m, n)) + A(bias(n));
      if (!addend.empty()) sum += A(addend(m, n));
      y(m, n) = static_cast<T>(sum);
    }
}

template <class T>
void add_bias_backward_impl(stream&, vector_view<accumulate_t<T>> dbias, matrix_view<T const> dy) {
  using A = accumulate_t<T>;
  for (index n = 0; n < dy.extent(1); ++n) {
    A sum{};
    for (index m = 0; m < dy.extent(0); ++m) sum += A(dy(m, n));
    dbias(n) += sum;
  }
}

}  // namespace parallel::reference
