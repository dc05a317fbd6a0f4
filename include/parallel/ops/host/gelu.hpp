// gelu and its gradient on the host. Error of Φ: some 1e-7, absolute, as with 1 + erf in float.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/gelu.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/host/math.hpp>
#include <parallel/ops/reference/gelu.hpp>

namespace parallel::host {

namespace detail {

/// Φ(x), the distribution function of the standard normal distribution.
template <int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> normal_distribution(
    simd::pack<float, Lanes> const& x) {
  simd::pack<float, Lanes> const half(0.5F);
  return simd::fma(half, simd::erf(x * 0.70710678F), half);
}

/// φ(x), its density.
template <int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> normal_density(
    simd::pack<float, Lanes> const& x) {
  return simd::exp(x * x * -0.5F) * 0.39894228F;
}

}  // namespace detail

template <class T>
void gelu_impl(stream& s, std::span<T> y, std::span<T const> x) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_packs(
          threads, std::ssize(y),
          [ to = y.data(), from = x.data() ](auto lanes, index i, index left)
              __attribute__((always_inline)) {
                auto const value = simd::load_partial<lanes>(from + i, left);
                simd::store_partial(to + i, value * detail::normal_distribution(value), left);
              });
    } else {
      reference::stream here;
      ops::gelu(here, y, x);
    }
  });
}

template <class T>
void gelu_backward_impl(stream& s, std::span<T> dx, std::span<T const> x, std::span<T const> dy) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_packs(
          threads, std::ssize(dx),
          [ to = dx.data(), from = x.data(), gradient = dy.data() ](auto lanes, index i, index left)
              __attribute__((always_inline)) {
                auto const value = simd::load_partial<lanes>(from + i, left);
                auto const slope = simd::fma(value, detail::normal_density(value),
                                             detail::normal_distribution(value));
                simd::store_partial(to + i, simd::load_partial<lanes>(gradient + i, left) * slope,
                                    left);
              });
    } else {
      reference::stream here;
      ops::gelu_backward(here, dx, x, dy);
    }
  });
}

}  // namespace parallel::host
