// Activations and their gradients, as kernels: one element a thread at a time, 16 bytes a load.
//
// Φ by erfc, which keeps its relative precision where Φ(x) is small (as the reference loops do).
// Arithmetic in accumulate_t<T>, rounded once. The kind is the same for every thread, so its branch
// costs nothing. Cost: memory bandwidth.
#pragma once

#include <cmath>
#include <cstddef>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/activation.hpp>
#include <parallel/ops/cuda/elements.hpp>

namespace parallel::cuda::kernels {

/// Φ(x), the distribution function of the standard normal distribution.
template <class A>
[[nodiscard]] PARALLELLM_DEVICE A normal_distribution(A x) {
  return A(0.5) * std::erfc(x * A(-0.70710678118654752440));
}

/// φ(x), its density: exp(-x²/2) / √(2π).
template <class A>
[[nodiscard]] PARALLELLM_DEVICE A normal_density(A x) {
  return A(0.39894228040143267794) * std::exp(A(-0.5) * x * x);
}

/// f(x) and f'(x).
template <class A>
struct activated {
  A value;
  A slope;
};

/// x σ(g), where g is a function of x with derivative dg.
template <class A>
[[nodiscard]] PARALLELLM_DEVICE activated<A> gated(A x, A g, A dg) {
  A const share = A(1) / (A(1) + std::exp(-g));
  return {x * share, share + x * share * (A(1) - share) * dg};
}

template <class A>
[[nodiscard]] PARALLELLM_DEVICE activated<A> activate(ops::activation_kind kind, A x) {
  using enum ops::activation_kind;
  switch (kind) {
    case gelu_tanh: {
      A const factor = A(1.59576912160573071176);  // 2 √(2/π)
      A const cubic = A(0.044715);
      return gated(x, factor * (x + cubic * x * x * x), factor * (A(1) + A(3) * cubic * x * x));
    }
    case quick_gelu: return gated(x, A(1.702) * x, A(1.702));
    case silu: return gated(x, x, A(1));
    case relu: return {x < A(0) ? A(0) : x, x > A(0) ? A(1) : A(0)};
    case gelu: break;
  }
  A const distribution = normal_distribution(x);
  return {x * distribution, distribution + x * normal_density(x)};
}

template <class T>
struct activation {
  T* y;
  T const* x;
  ops::activation_kind kind;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for_each_element(
        b, count, [this](accumulate_t<T> v) { return activate(kind, v).value; }, y, x);
  }
};

template <class T>
struct activation_backward {
  T* dx;
  T const* x;
  T const* dy;
  ops::activation_kind kind;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for_each_element(
        b, count,
        [this](accumulate_t<T> v, accumulate_t<T> d) { return d * activate(kind, v).slope; }, dx, x,
        dy);
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::activation_arguments<T> const& a) {
  return grid{blocks_for(a.y.size(), pack_size<T>),
              kernels::activation<T>{a.y.data(), a.x.data(), a.kind, a.y.size()}};
}

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::activation_backward_arguments<T> const& a) {
  return grid{
      blocks_for(a.dx.size(), pack_size<T>),
      kernels::activation_backward<T>{a.dx.data(), a.x.data(), a.dy.data(), a.kind, a.dx.size()}};
}

}  // namespace parallel::cuda
