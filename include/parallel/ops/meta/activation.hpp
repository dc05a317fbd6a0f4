// Activations on the meta device. erf and exp count as one operation each, a σ as three.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/activation.hpp>

namespace parallel::meta {

namespace detail {

/// Operations an element, forward and backward (the product with dy included).
struct activation_cost {
  std::size_t forward;
  std::size_t backward;
};
[[nodiscard]] constexpr activation_cost cost_of(ops::activation_kind kind) {
  using enum ops::activation_kind;
  switch (kind) {
    case gelu_tanh: return {8, 14};
    case quick_gelu: return {5, 10};
    case silu: return {4, 8};
    case relu: return {1, 1};
    case gelu: break;
  }
  return {5, 10};
}

}  // namespace detail

template <class T>
void activation_impl(stream& s, std::span<T> y, std::span<T const> x, ops::activation_kind kind) {
  s.touch(y, x);
  s.count(detail::cost_of(kind).forward * y.size());
}

template <class T>
void activation_backward_impl(stream& s, std::span<T> dx, std::span<T const> x,
                              std::span<T const> dy, ops::activation_kind kind) {
  s.touch(dx, x, dy);
  s.count(detail::cost_of(kind).backward * dx.size());
}

}  // namespace parallel::meta
