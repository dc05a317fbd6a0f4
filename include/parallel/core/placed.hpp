// placed: values that are not what they seem on one rank alone.
//
// Forgetting a reduction is the classic silent bug of parallel training. An activation, or its
// gradient, of which a rank holds an addend or some of the columns is another type than the whole,
// and only an exchange over the axis turns the one into the other; layers take plain views.
#pragma once

#include <type_traits>

#include <parallel/core/tensor.hpp>

namespace parallel {

/// An activation, or its gradient, of which every rank of `Axis` holds an addend. Whoever sums it
/// uses the addend up.
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

/// An activation, or its gradient, of which every rank of `Axis` holds all rows of some of the
/// columns: its heads, its hidden units.
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

/// A value that may be used as it is: not one that still has to be summed.
template <class V>
concept reduced_value = !detail::is_partial_sum<std::remove_cvref_t<V>>;

/// Some of the columns of a value.
template <class V>
concept sliced_value = detail::is_column_slice<std::remove_cvref_t<V>>;

/// All of a value, as one rank alone would have it.
template <class V>
concept whole_value = reduced_value<V> && !sliced_value<V>;

/// What is here of a whole value, or of one that is sliced: for code that treats columns alike,
/// wherever they are.
template <class T>
[[nodiscard]] matrix_view<T> local(matrix_view<T> x) {
  return x;
}
template <class Axis, class T>
[[nodiscard]] matrix_view<T> local(column_slice<Axis, T> x) {
  return x.columns;
}

/// `x` as a value of the kind of the first argument: whole as it is, or a slice along its axis.
template <class U, class T>
[[nodiscard]] matrix_view<T> placed_like(matrix_view<U> const&, matrix_view<T> x) {
  return x;
}
template <class Axis, class U, class T>
[[nodiscard]] column_slice<Axis, T> placed_like(column_slice<Axis, U> const&, matrix_view<T> x) {
  return {x};
}

}  // namespace parallel
