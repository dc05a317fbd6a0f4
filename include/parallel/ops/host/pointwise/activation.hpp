// Activations and their gradients on the host. The error of Φ is about 1e-7, absolute, as with 1 +
// erf in float; that of σ is about 1e-7, relative.
#pragma once

#include <parallel/ops/host/math.hpp>
#include <parallel/ops/host/pointwise/elementwise.hpp>
#include <parallel/ops/pointwise/activation.hpp>

namespace parallel::host {

namespace detail {

/// Φ(x), the distribution function of the standard normal distribution.
template <int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> normal_distribution(
    simd::pack<float, Lanes> const& x) {
  simd::pack<float, Lanes> const half(0.5F);
  return simd::fma(half, simd::erf(x * 0.70710678F), half);
}

/// φ(x), the density of the standard normal distribution.
template <int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> normal_density(
    simd::pack<float, Lanes> const& x) {
  return simd::exp(x * x * -0.5F) * 0.39894228F;
}

/// σ(g), the logistic function.
template <int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> logistic(simd::pack<float, Lanes> const& g) {
  simd::pack<float, Lanes> const one(1.0F);
  return one / (simd::exp(-g) + one);
}

/// For the activations of the form x σ(g(x)): g(x)/x with cubic = 1, and g'(x) with cubic = 3. One
/// function serves both, because only the g of gelu_tanh has a second term, in x³.
template <ops::activation_kind Kind, int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> gate(simd::pack<float, Lanes> const& x,
                                                            float cubic) {
  if constexpr (Kind == ops::activation_kind::gelu_tanh)  // 2 √(2/π) (1 + 0.044715 x²)
    return simd::fma(x * x, cubic * 0.0713548162F, 1.59576912F);
  else
    return Kind == ops::activation_kind::quick_gelu ? 1.702F : 1.0F;
}

template <ops::activation_kind Kind, int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> activate(simd::pack<float, Lanes> const& x) {
  using floats = simd::pack<float, Lanes>;
  if constexpr (Kind == ops::activation_kind::gelu) {
    return x * normal_distribution(x);
  } else if constexpr (Kind == ops::activation_kind::relu) {
    return simd::max(x, floats(0.0F));
  } else {
    return x * logistic(x * gate<Kind>(x, 1.0F));
  }
}

template <ops::activation_kind Kind, int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> slope(simd::pack<float, Lanes> const& x) {
  using floats = simd::pack<float, Lanes>;
  if constexpr (Kind == ops::activation_kind::gelu) {
    return simd::fma(x, normal_density(x), normal_distribution(x));
  } else if constexpr (Kind == ops::activation_kind::relu) {
    return simd::select(floats(0.0F) < x, floats(1.0F), 0.0F);
  } else {
    auto const share = logistic(x * gate<Kind>(x, 1.0F));
    return simd::fma(share * (floats(1.0F) - share), x * gate<Kind>(x, 3.0F), share);
  }
}

}  // namespace detail

template <class T>
void run_operation(stream& s, ops::activation_arguments<T> const& a) {
  ops::visit_activation(a.function.kind, [&](auto kind) {
    detail::run_packs(
        s, [](auto, auto const& x) __attribute__((always_inline)) {
          return detail::activate<decltype(kind)::value>(x);
        },
        a);
  });
}

template <class T>
void run_operation(stream& s, ops::activation_backward_arguments<T> const& a) {
  ops::visit_activation(a.function.kind, [&](auto kind) {
    detail::run_packs(
        s, [](auto, auto const& x, auto const& dy) __attribute__((always_inline)) {
          return dy * detail::slope<decltype(kind)::value>(x);
        },
        a);
  });
}

}  // namespace parallel::host
