// Activations and their gradients, as kernels: one element per thread at a time, 16 bytes per load.
//
// There is a kernel for each kind: a choice within the loop would cost as much as the work. Φ keeps
// its relative precision where Φ(x) is small (as in the reference loops). Arithmetic is in
// accumulate_t<T>, and the result is rounded once. Cost: memory bandwidth;
// bench/results/gpu_kernels.md has the number of instructions.
//
// The tail of the standard normal distribution beyond |x|, from which gelu and its slope are
// computed.
//
// In float, Φ(-t) is 2^(-t² log2(e)/2) times a ratio that varies little: a polynomial in 1 / (1 +
// 0.3 t), after Hastings (Approximations for digital computers, 1955), with our own coefficients
// (bench/fit_normal_tail.py). About 15 instructions, none of them a branch. Errors relative to the
// result, as tested on the host: 6e-7 for Φ(-t) and 1.5e-6 for the density; 1e-5 for results in
// bf16, whose last bit is a hundred times that. The approximate instructions of a GPU
// (core/instructions.hpp) add at most 6e-7.
#pragma once

#include <cmath>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/instructions.hpp>
#include <parallel/ops/cuda/kernels/pointwise/elementwise.hpp>
#include <parallel/ops/pointwise/activation.hpp>

namespace parallel::cuda::kernels {

/// For t = |x|, limited to a bound above which no result changes: Φ(-t), the probability of values
/// beyond t, and the density φ(t). All are NaN if x is.
template <class A>
struct normal_tail {
  A t;
  A beyond;
  A density;
};

/// T is the type to which results are rounded: float, bf16 or double.
template <class T, class A = accumulate_t<T>>
[[nodiscard]] PARALLELLM_DEVICE normal_tail<A> normal_tail_of(A x) {
  constexpr A bound = std::is_same_v<A, double> ? A(39) : A(13.5);
  constexpr A density = A(0.39894228040143267794);  // 1 / √(2π)
  A const size = std::fabs(x);
  A const t = size > bound ? bound : size;
  if constexpr (std::is_same_v<A, double>) {
    return {t, 0.5 * std::erfc(t * 0.70710678118654752440), density * std::exp(-0.5 * t * t)};
  } else {
    constexpr float factor = -0.72134751F;  // -log2(e) / 2; the ratio contains its rounding error
    float const square = t * t;
    float const exponent = square * factor;
    float power = fast_exp2(exponent);
    if constexpr (std::is_same_v<T, float>) {  // corrects both rounding errors of the exponent
      float const lost = std::fma(square, factor, -exponent) + std::fma(t, t, -square) * factor;
      power = std::fma(power, lost * 0.69314718F, power);
    }
    float const u = fast_reciprocal(std::fma(t, 0.3F, 1.0F));
    float ratio = 0.0359883159F;
    ratio = std::fma(ratio, u, -0.158525452F);
    ratio = std::fma(ratio, u, 0.208667919F);
    ratio = std::fma(ratio, u, -0.0558586307F);
    ratio = std::fma(ratio, u, 0.12974593F);
    ratio = std::fma(ratio, u, 0.0995391831F);
    ratio = std::fma(ratio, u, 0.120818041F);
    ratio = std::fma(ratio, u, 0.119624615F);
    return {t, power * (u * ratio), power * density};
  }
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
