// norm_rows: what the gradients of norms ask of the shapes that they are given.
#pragma once

#include <string_view>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::ops::detail {

/// Throws unless dx, dy and x are rows of one shape, with a number of `weight` a column and of
/// `rstd` a row, and `addend` is of that shape or has no rows.
template <class T>
void check_norm_rows(std::string_view name, rows_view<T> dx, rows_view<T const> dy,
                     rows_view<T const> x, vector_view<T const> weight,
                     vector_view<accumulate_t<T> const> rstd, rows_view<T const> addend) {
  same(name, "the number of rows of dx", dx.rows, "that of dy", dy.rows);
  same(name, "the number of rows of dx", dx.rows, "that of x", x.rows);
  same(name, "the number of columns of dx", dx.columns, "that of dy", dy.columns);
  same(name, "the number of columns of dx", dx.columns, "that of x", x.columns);
  same(name, "the size of weight", weight.extent(0), "that of a row", x.columns);
  same(name, "the size of rstd", rstd.extent(0), "the number of rows", x.rows);
  shape<2> const given{addend.rows, addend.columns};  // nvcc garbles braces inside a cast
  shape<2> const wanted{dx.rows, dx.columns};
  static_cast<void>(adds(name, given, wanted));
}

}  // namespace parallel::ops::detail
