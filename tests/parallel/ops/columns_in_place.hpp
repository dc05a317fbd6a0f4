// A norm of columns of a wider matrix, in place: a property of both layer_norm and
// rms_norm.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/ops/rows_view.hpp>

#include "support.hpp"

namespace ops_support {

/// `norm` has operations for a stream: forward(s, y, x, weight), which stores the statistics,
/// backward_input(s, dx, dy, x, weight) and backward_weight(s, dweight, dy, x). Checks that their
/// results for some columns, input_view place, equal those for the same columns input_view their
/// own matrix, and that the other columns are unchanged.
template <class T, class Norm>
void check_columns_in_place(Norm norm) {
  namespace ops = parallel::ops;
  std::ptrdiff_t const rows = 5, columns = 19, stride = 64, offset = 21;
  auto packed = random<T>(rows * stride, 1);
  auto const initial = packed;
  auto const weight = random<T>(columns, 2);
  auto gradients = random<T>(rows * stride, 3);
  auto const dy_before = gradients;
  std::vector<parallel::accumulate_t<T>> dweight(19), dweight_dense(19);

  std::vector<T> x, dy;  // the same columns, packed densely
  for (std::ptrdiff_t m = 0; m < rows; ++m)
    for (std::ptrdiff_t n = 0; n < columns; ++n) {
      x.push_back(initial[static_cast<std::size_t>(m * stride + offset + n)]);
      dy.push_back(dy_before[static_cast<std::size_t>(m * stride + offset + n)]);
    }
  std::vector<T> y(x.size()), dx(x.size());
  on_host(2, [&](auto& s) {
    using input_view = ops::rows_view<T const>;
    using output_view = ops::rows_view<T>;
    input_view const dense_x(matrix(std::as_const(x), rows));
    input_view const dense_dy(matrix(std::as_const(dy), rows));
    norm.forward(s, output_view(matrix(y, rows)), dense_x, vector(weight));
    norm.backward_input(s, output_view(matrix(dx, rows)), dense_dy, dense_x, vector(weight));
    norm.backward_weight(s, vector(dweight_dense), dense_dy, dense_x);
    auto const part = [&](std::vector<T>& data) {
      return output_view(matrix(data, rows)).slice_columns(offset, offset + columns);
    };
    input_view const inputs(initial.data() + offset, rows, columns, stride);
    norm.backward_weight(s, vector(dweight), input_view(part(gradients)), inputs);
    norm.backward_input(s, part(gradients), input_view(part(gradients)), inputs, vector(weight));
    norm.forward(s, part(packed), input_view(part(packed)), vector(weight));
  });
  CHECK(same_bits(dweight, dweight_dense));
  std::size_t next = 0;
  for (std::ptrdiff_t m = 0; m < rows; ++m)
    for (std::ptrdiff_t n = 0; n < stride; ++n) {
      auto const position = static_cast<std::size_t>(m * stride + n);
      bool const inside = offset <= n && n < offset + columns;
      CHECK(packed[position] == (inside ? y[next] : initial[position]));
      CHECK(gradients[position] == (inside ? dx[next] : dy_before[position]));
      if (inside) ++next;
    }
}

}  // namespace ops_support
