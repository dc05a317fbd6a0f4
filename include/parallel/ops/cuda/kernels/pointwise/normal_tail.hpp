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

}  // namespace parallel::cuda::kernels
