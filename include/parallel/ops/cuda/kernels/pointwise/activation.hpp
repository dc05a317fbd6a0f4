// Activations and their gradients, as kernels: one element per thread at a time, 16 bytes per load.
//
// There is a kernel for each kind: a choice within the loop would cost as much as the work. Φ keeps
// its relative precision where Φ(x) is small (as in the reference loops). Arithmetic is in
// accumulate_t<T>, and the result is rounded once. Cost: memory bandwidth;
// bench/results/gpu_kernels.md has the number of instructions.
#pragma once

#include <cmath>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/cuda/kernels/pointwise/elementwise.hpp>
#include <parallel/ops/cuda/kernels/pointwise/normal_tail.hpp>
#include <parallel/ops/pointwise/activation.hpp>

namespace parallel::cuda::kernels {

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

/// f(x) and f'(x) of a kind that is known at compile time, for results of type T.
template <ops::activation_kind Kind, class T, class A = accumulate_t<T>>
[[nodiscard]] PARALLELLM_DEVICE activated<A> activate(A x) {
  using enum ops::activation_kind;
  if constexpr (Kind == gelu) {  // without cancellation where Φ(x) is small
    auto const [t, beyond, density] = normal_tail_of<T>(x);
    A const slope = beyond - t * density;  // at -t
    return {(x > A(0) ? x : A(0)) - t * beyond, x < A(0) ? slope : A(1) - slope};
  } else if constexpr (Kind == gelu_tanh) {
    A const factor = A(1.59576912160573071176);  // 2 √(2/π)
    A const cubic = A(0.044715);
    return gated(x, factor * (x + cubic * x * x * x), factor * (A(1) + A(3) * cubic * x * x));
  } else if constexpr (Kind == quick_gelu) {
    return gated(x, A(1.702) * x, A(1.702));
  } else if constexpr (Kind == silu) {
    return gated(x, x, A(1));
  } else {
    return {x < A(0) ? A(0) : x, x > A(0) ? A(1) : A(0)};
  }
}

template <class T, ops::activation_kind Kind>
struct activated_value : ops::detail::pointwise_function<false> {
  using A = accumulate_t<T>;
  PARALLELLM_DEVICE A operator()(A x) const { return activate<Kind, T>(x).value; }
};

template <class T, ops::activation_kind Kind>
struct activation_gradient : ops::detail::pointwise_function<false> {
  using A = accumulate_t<T>;
  PARALLELLM_DEVICE A operator()(A x, A dy) const { return dy * activate<Kind, T>(x).slope; }
};

/// y[i] = f(x[i]).
template <class T, ops::activation_kind Kind>
using activation = pointwise<activated_value<T, Kind>, T, T>;
/// dx[i] = dy[i] f'(x[i]).
template <class T, ops::activation_kind Kind>
using activation_backward = pointwise<activation_gradient<T, Kind>, T, T, T>;

}  // namespace parallel::cuda::kernels
