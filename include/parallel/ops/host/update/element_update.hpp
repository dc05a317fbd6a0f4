// adamw and lion on the host: one pass over the arrays.
#pragma once

#include <cstdint>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/update/element_update.hpp>

namespace parallel::host {

namespace detail {

/// The square root to 1 ulp, for numbers >= 0; numbers below 1e-38 count as 0. The reciprocal root
/// is estimated from the exponent and improved by three steps of Newton's method; then the root
/// itself is corrected once. Calls of libm do not vectorise.
template <int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> square_root(
    simd::pack<float, Lanes> const& x) {
  using floats = simd::pack<float, Lanes>;
  simd::pack<std::uint32_t, Lanes> bits;
  bits.v = 0x5f3759dfU - (simd::bits_as<std::uint32_t>(x).v >> 1);
  auto r = simd::bits_as<float>(bits);  // about 1/sqrt(x)
  floats const half = x * 0.5F;
  for (int step = 0; step < 3; ++step) r = r * (floats(1.5F) - half * r * r);
  floats root = x * r;
  root = simd::fma(r * 0.5F, x - root * root, root);
  root = simd::select(x < floats(1e-38F), floats(0.0F), root);
  // infinity and NaN are unchanged
  return simd::select(x < floats(__builtin_inff()), root, x);
}

/// 1 or -1 with the sign of x; 0 and NaN are unchanged.
template <int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> sign_of(simd::pack<float, Lanes> const& x) {
  using floats = simd::pack<float, Lanes>;
  auto const signed_one = simd::copysign(floats(1.0F), x);
  return simd::select(floats(0.0F) < simd::abs(x), signed_one, x);
}

}  // namespace detail

// Each update is one expression within its loop: a compiler that contracts products and sums would
// give other bits of the same expression in a function that both share.
template <class T, class A>
void run_operation(stream& s, ops::update_arguments<ops::detail::adamw_factors, T, A> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      ops::detail::adamw_factors<float> const f(a.options);
      float const scale = a.options.gradient_scale == nullptr ? 1.0F : *a.options.gradient_scale;
      for_packs(
          threads, std::ssize(a.values), [
            =, values = a.values.data(), weights = a.master.data(), first = a.states[0].data(),
            second = a.states[1].data(), gradients = a.gradients.data()
          ](auto lanes, index i, index left) __attribute__((always_inline)) {
            auto const g = simd::load_partial<lanes>(gradients + i, left) * broadcast<lanes>(scale);
            auto const m = simd::load_partial<lanes>(first + i, left) * broadcast<lanes>(f.beta1) +
                           g * broadcast<lanes>(f.one_minus_beta1);
            auto const v = simd::load_partial<lanes>(second + i, left) * broadcast<lanes>(f.beta2) +
                           g * g * broadcast<lanes>(f.one_minus_beta2);
            auto const denominator =
                simd::fma(detail::square_root(v), broadcast<lanes>(f.inverse_correction2),
                          broadcast<lanes>(f.eps));
            auto const p =
                simd::load_partial<lanes>(weights + i, left) * broadcast<lanes>(f.decay) -
                m / denominator * broadcast<lanes>(f.step_size);
            simd::store_partial(first + i, m, left);
            simd::store_partial(second + i, v, left);
            simd::store_partial(weights + i, p, left);
            simd::store_partial(values + i, p, left);
          });
    } else {
      ops::compute(a);
    }
  });
}

template <class T, class A>
void run_operation(stream& s, ops::update_arguments<ops::detail::lion_factors, T, A> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      ops::detail::lion_factors<float> const f(a.options);
      float const scale = a.options.gradient_scale == nullptr ? 1.0F : *a.options.gradient_scale;
      for_packs(
          threads, std::ssize(a.values), [
            =, values = a.values.data(), weights = a.master.data(), average = a.states[0].data(),
            gradients = a.gradients.data()
          ](auto lanes, index i, index left) __attribute__((always_inline)) {
            auto const m = simd::load_partial<lanes>(average + i, left);
            auto const change =
                simd::load_partial<lanes>(gradients + i, left) * broadcast<lanes>(scale) - m;
            auto const sign = detail::sign_of(m + change * broadcast<lanes>(f.one_minus_beta1));
            auto const p =
                simd::load_partial<lanes>(weights + i, left) * broadcast<lanes>(f.decay) -
                sign * broadcast<lanes>(f.lr);
            simd::store_partial(average + i, m + change * broadcast<lanes>(f.one_minus_beta2),
                                left);
            simd::store_partial(weights + i, p, left);
            simd::store_partial(values + i, p, left);
          });
    } else {
      ops::compute(a);
    }
  });
}

}  // namespace parallel::host
