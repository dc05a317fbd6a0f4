// partial_values: types for values of which one rank holds only a part.
//
// A forgotten reduction is the classic silent bug of parallel training. So an activation, or its
// gradient, of which a rank holds an addend or some of the columns has another type than the whole
// value. Only an exchange over the axis converts one into the other. Layers take plain views.
#pragma once

#include <type_traits>

#include <parallel/core/tensor.hpp>

namespace parallel {

/// An activation, or its gradient, of which every rank of `Axis` holds an addend. The reduction may
/// overwrite the addend.
template <class Axis, class T>
struct partial_sum {
  using axis_type = Axis;
  matrix_view<T> addend;

  template <class U>
  requires(std::is_same_v<U, T const> && !std::is_same_v<U, T>) operator partial_sum<Axis, U>()
      const {
    return {addend};
  }
};

/// An activation, or its gradient, of which every rank of `Axis` holds some columns in all rows:
/// its attention heads or its hidden units.
template <class Axis, class T>
struct column_slice {
  using axis_type = Axis;
  matrix_view<T> columns;

  template <class U>
  requires(std::is_same_v<U, T const> && !std::is_same_v<U, T>) operator column_slice<Axis, U>()
      const {
    return {columns};
  }
};

namespace detail {
template <class V>
inline constexpr bool is_partial_sum = false;
template <class Axis, class T>
inline constexpr bool is_partial_sum<partial_sum<Axis, T>> = true;
template <class V>
inline constexpr bool is_column_slice = false;
template <class Axis, class T>
inline constexpr bool is_column_slice<column_slice<Axis, T>> = true;
}  // namespace detail

/// A value that does not have to be summed over ranks.
template <class V>
concept reduced_value = !detail::is_partial_sum<std::remove_cvref_t<V>>;

/// A value of which the rank holds some of the columns.
template <class V>
concept sliced_value = detail::is_column_slice<std::remove_cvref_t<V>>;

/// A complete value, as a single rank would hold it.
template <class V>
concept whole_value = reduced_value<V> && !sliced_value<V>;

/// The local matrix of a whole or sliced value, for code that treats each column alike.
template <class T>
[[nodiscard]] matrix_view<T> local(matrix_view<T> x) {
  return x;
}
template <class Axis, class T>
[[nodiscard]] matrix_view<T> local(column_slice<Axis, T> x) {
  return x.columns;
}

/// `x` as the same kind of value as the first argument: a whole value, or a slice along its axis.
template <class U, class T>
[[nodiscard]] matrix_view<T> sliced_like(matrix_view<U> const&, matrix_view<T> x) {
  return x;
}
template <class Axis, class U, class T>
[[nodiscard]] column_slice<Axis, T> sliced_like(column_slice<Axis, U> const&, matrix_view<T> x) {
  return {x};
}

}  // namespace parallel
