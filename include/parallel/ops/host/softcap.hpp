// softcap and its gradient on the host.
#pragma once

#include <parallel/ops/host/elementwise.hpp>
#include <parallel/ops/host/math.hpp>
#include <parallel/ops/reference/softcap.hpp>
#include <parallel/ops/softcap.hpp>

namespace parallel::host {

template <class A>
void softcap_impl(stream& s, std::span<A> y, std::span<A const> x, ops::softcap_options options) {
  detail::assign<A>(
      s, y,
      [
        from = x.data(), cap = static_cast<float>(options.cap),
        factor = static_cast<float>(options.scale / options.cap)
      ](auto lanes, A const*, index i, index left) __attribute__((always_inline)) {
        auto const z = simd::load_partial<lanes>(from + i, left) * broadcast<lanes>(factor);
        return simd::tanh(z) * broadcast<lanes>(cap);
      },
      [=](auto& here) { ops::softcap(here, y, x, options); });
}

template <class T>
void softcap_backward_impl(stream& s, std::span<T> dx, std::span<accumulate_t<T> const> y,
                           std::span<T const> dy, ops::softcap_options options) {
  detail::assign<T>(
      s, dx,
      [
        from = y.data(), gradient = dy.data(), scale = static_cast<float>(options.scale),
        inverse = static_cast<float>(1 / options.cap)
      ](auto lanes, T const*, index i, index left) __attribute__((always_inline)) {
        auto const share = simd::load_partial<lanes>(from + i, left) * broadcast<lanes>(inverse);
        auto const slope = (broadcast<lanes>(1.0F) - share * share) * broadcast<lanes>(scale);
        return simd::load_partial<lanes>(gradient + i, left) * slope;
      },
      [=](auto& here) { ops::softcap_backward(here, dx, y, dy, options); });
}

}  // namespace parallel::host
