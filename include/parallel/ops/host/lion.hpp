// lion on the host: one pass over the four arrays.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/lion.hpp>
#include <parallel/ops/reference/lion.hpp>

namespace parallel::host {

namespace detail {

/// 1 or -1 with the sign of x; 0 and NaN stay what they are.
template <int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> sign_of(simd::pack<float, Lanes> const& x) {
  using floats = simd::pack<float, Lanes>;
  auto const signed_one = simd::copysign(floats(1.0F), x);
  return simd::select(floats(0.0F) < simd::abs(x), signed_one, x);
}

}  // namespace detail

template <class T, class A = accumulate_t<T>>
void lion_impl(stream& s, std::span<T> values, std::span<A> master, std::span<A> exp_avg,
               std::span<A const> gradients, ops::lion_options<A> options) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      ops::detail::lion_factors<float> const f(options);
      float const scale = options.gradient_scale == nullptr ? 1.0F : *options.gradient_scale;
      for_packs(
          threads, std::ssize(values), [
            =, to = values.data(), weights = master.data(), average = exp_avg.data(),
            from = gradients.data()
          ](auto lanes, index i, index left) __attribute__((always_inline)) {
            auto const m = simd::load_partial<lanes>(average + i, left);
            auto const change =
                simd::load_partial<lanes>(from + i, left) * broadcast<lanes>(scale) - m;
            auto const sign = detail::sign_of(m + change * broadcast<lanes>(f.one_minus_beta1));
            auto const p =
                simd::load_partial<lanes>(weights + i, left) * broadcast<lanes>(f.decay) -
                sign * broadcast<lanes>(f.lr);
            simd::store_partial(average + i, m + change * broadcast<lanes>(f.one_minus_beta2),
                                left);
            simd::store_partial(weights + i, p, left);
            simd::store_partial(to + i, p, left);
          });
    } else {
      reference::stream here;
      ops::lion(here, values, master, exp_avg, gradients, options);
    }
  });
}

}  // namespace parallel::host
