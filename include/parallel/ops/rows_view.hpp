// rows_view: a matrix whose rows need not be adjacent, as the columns of a packed [q | k | v] do.
//
// Elements of one row are contiguous; the distance from one row to the next is `row_stride`
// elements. Every matrix_view converts to one with row_stride = columns.
#pragma once

#include <cassert>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel::ops {

template <class T>
struct rows_view {
  using value_type = std::remove_cv_t<T>;
  using element_type = T;

  T* data = nullptr;
  index rows = 0;
  index columns = 0;
  index row_stride = 0;  ///< elements, >= columns

  constexpr rows_view() = default;
  constexpr rows_view(T* first, index num_rows, index num_columns, index stride)
      : data(first), rows(num_rows), columns(num_columns), row_stride(stride) {}

  /// Converts from a matrix, of the same elements or of mutable ones.
  template <class U>
  requires(std::is_same_v<T, U> || std::is_same_v<T, U const>) constexpr rows_view(
      matrix_view<U> other)  // NOLINT(google-explicit-constructor)
      : rows_view(other.data(), other.extent(0), other.extent(1), other.extent(1)) {}

  /// Converts from a rows_view of mutable elements to one of const elements.
  template <class U>
  requires(std::is_same_v<T, U const> && !std::is_same_v<T, U>) constexpr rows_view(
      rows_view<U> other)  // NOLINT(google-explicit-constructor)
      : rows_view(other.data, other.rows, other.columns, other.row_stride) {}

  [[nodiscard]] PARALLELLM_HOST_DEVICE constexpr T* row(index r) const {
    assert(0 <= r && r < rows);
    return data + r * row_stride;
  }

  /// Columns [begin, end) of every row.
  [[nodiscard]] constexpr rows_view slice_columns(index begin, index end) const {
    assert(0 <= begin && begin <= end && end <= columns);
    return {data == nullptr ? nullptr : data + begin, rows, end - begin, row_stride};
  }
};

}  // namespace parallel::ops
