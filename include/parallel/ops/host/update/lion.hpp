// lion on the host: one pass over the values, the master weights, the averages and the gradients.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/update/lion.hpp>

namespace parallel::host {

namespace detail {

/// 1 or -1 with the sign of x; 0 and NaN are unchanged.
template <int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> sign_of(simd::pack<float, Lanes> const& x) {
  using floats = simd::pack<float, Lanes>;
  auto const signed_one = simd::copysign(floats(1.0F), x);
  return simd::select(floats(0.0F) < simd::abs(x), signed_one, x);
}

}  // namespace detail

template <class T, class A>
void run_operation(stream& s, ops::lion_arguments<T, A> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      ops::detail::lion_factors<float> const f(a.options);
      float const scale = a.options.gradient_scale == nullptr ? 1.0F : *a.options.gradient_scale;
      for_packs(
          threads, std::ssize(a.values), [
            =, values = a.values.data(), weights = a.master.data(), average = a.exp_avg.data(),
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
