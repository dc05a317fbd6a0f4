// norm_rows: the check of shapes that the gradients of norms share.
#pragma once

#include <string_view>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/detail/check.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::ops::detail {

/// Throws `error` unless dx, dy and x have the same shape, `weight` has one number per column and
/// `rstd` one per row, and `addend` has that shape or no rows.
template <class T>
void check_norm_rows(std::string_view name, rows_view<T> dx, rows_view<T const> dy,
                     rows_view<T const> x, vector_view<T const> weight,
                     vector_view<accumulate_t<T> const> rstd, rows_view<T const> addend) {
  require_equal(name, "the number of rows of dx", dx.rows, "that of dy", dy.rows);
  require_equal(name, "the number of rows of dx", dx.rows, "that of x", x.rows);
  require_equal(name, "the number of columns of dx", dx.columns, "that of dy", dy.columns);
  require_equal(name, "the number of columns of dx", dx.columns, "that of x", x.columns);
  require_equal(name, "the size of weight", weight.extent(0), "that of a row", x.columns);
  require_equal(name, "the size of rstd", rstd.extent(0), "the number of rows", x.rows);
  shape<2> const addend_extents{addend.rows, addend.columns};  // nvcc garbles braces inside a cast
  shape<2> const result_extents{dx.rows, dx.columns};
  static_cast<void>(has_addend(name, addend_extents, result_extents));
}

}  // namespace parallel::ops::detail
