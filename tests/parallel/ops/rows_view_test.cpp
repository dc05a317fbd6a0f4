// rows_view: conversions and column slices.
#include <doctest/doctest.h>

#include <type_traits>

#include <parallel/ops/rows_view.hpp>

namespace rows_view_test {

using parallel::matrix_view;
using parallel::ops::rows_view;

static_assert(std::is_convertible_v<matrix_view<float>, rows_view<float>>);
static_assert(std::is_convertible_v<matrix_view<float>, rows_view<float const>>);
static_assert(std::is_convertible_v<matrix_view<float const>, rows_view<float const>>);
static_assert(std::is_convertible_v<rows_view<float>, rows_view<float const>>);
static_assert(!std::is_convertible_v<matrix_view<float const>, rows_view<float>>);
static_assert(!std::is_convertible_v<rows_view<float const>, rows_view<float>>);
static_assert(!std::is_convertible_v<matrix_view<double>, rows_view<float>>);

TEST_CASE("rows_view: columns of a matrix keep the matrix's stride") {
  int data[12] = {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23};
  rows_view<int> const rows = matrix_view<int>(data, {3, 4});
  CHECK(rows.row_stride == 4);
  auto const middle = rows.slice_columns(1, 3);
  CHECK(middle.rows == 3);
  CHECK(middle.columns == 2);
  CHECK(middle.row(2)[1] == 22);
  auto const last = middle.slice_columns(1, 2);
  CHECK(last.row(1)[0] == 12);
}

TEST_CASE("rows_view: columns of a null view stay null, as on the meta device") {
  rows_view<int> const rows = matrix_view<int>(nullptr, {3, 4});
  CHECK(rows.slice_columns(1, 3).data == nullptr);
}

}  // namespace rows_view_test
