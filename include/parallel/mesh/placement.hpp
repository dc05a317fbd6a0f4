// Placement as part of a type: whether a value still has to be summed over an axis of the mesh.
//
// A forgotten reduction is the classic silent error of parallel training. Gradients that ranks hold
// as partial sums have another type than reduced gradients. Only a reduction converts the first
// type to the second, and an optimizer accepts only the second.
#pragma once

#include <span>

#include <parallel/core/dtype.hpp>

namespace parallel {

/// The axis `data` is the product of the mesh axes over which gradients are summed.
namespace axis {
/// The axis over which gradients are summed.
struct data {};
}  // namespace axis

/// Every rank of the axis holds one addend; the value is the sum of all.
template <class Axis>
struct partial {};

/// The sum is complete; each rank holds the whole sum or its shard of it.
template <class Axis>
struct reduced {};

namespace detail {
template <class Placement>
inline constexpr bool is_reduced = false;
template <class Axis>
inline constexpr bool is_reduced<reduced<Axis>> = true;
}  // namespace detail

/// Flat gradients of a range of a segment, with their placement.
template <class A, class Placement>
struct placed_gradient {
  static constexpr bool is_reduced = detail::is_reduced<Placement>;
  std::span<A> elements;
};

}  // namespace parallel
