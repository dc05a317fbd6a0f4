// placed: values that are not what they seem on one rank alone.
//
// Forgetting a reduction is the classic silent bug of parallel training. An activation, or its
// gradient, that ranks hold as partial sums is another type than the sum itself, and only a
// reduction over the axis turns the first into the second; layers take plain views.
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
};

namespace detail {
template <class V>
inline constexpr bool is_partial_sum = false;
template <class Axis, class T>
inline constexpr bool is_partial_sum<partial_sum<Axis, T>> = true;
}  // namespace detail

/// A value that may be used as it is: not one that still has to be summed.
template <class V>
concept reduced_value = !detail::is_partial_sum<std::remove_cvref_t<V>>;

}  // namespace parallel
