// Placement in the type: whether a value still has to be summed over an axis of the mesh.
//
// Forgetting a reduction is the classic silent bug of parallel training. A gradient that ranks hold
// as partial sums is another type than the reduced one, and only a reduction turns the first into
// the second; an optimizer takes only the second.
#pragma once

#include <span>

#include <parallel/core/dtype.hpp>

namespace parallel {

/// Axes of the mesh. `data` is the product over which gradients are summed.
namespace axis {
struct data {};
}  // namespace axis

/// Every rank of the axis holds an addend; the value is their sum.
template <class Axis>
struct partial {};

/// The sum has been made; each rank holds all of it or its shard of it.
template <class Axis>
struct reduced {};

namespace detail {
template <class Placement>
inline constexpr bool is_reduced = false;
template <class Axis>
inline constexpr bool is_reduced<reduced<Axis>> = true;
}  // namespace detail

/// Flat gradients of some range of a segment, with their placement.
template <class A, class Placement>
struct placed_gradient {
  static constexpr bool is_reduced = detail::is_reduced<Placement>;
  std::span<A> elements;
};

}  // namespace parallel
