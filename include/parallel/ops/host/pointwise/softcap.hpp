// softcap and its gradient on the host.
#pragma once

#include <parallel/ops/host/math.hpp>
#include <parallel/ops/host/pointwise/elementwise.hpp>
#include <parallel/ops/pointwise/softcap.hpp>

namespace parallel::host {

template <class A>
void run_operation(stream& s, ops::softcap_arguments<A> const& a) {
  detail::assign<A>(
      s, a, a.y, [
        from = a.x.data(), cap = static_cast<float>(a.options.cap),
        factor = static_cast<float>(a.options.scale / a.options.cap)
      ](auto lanes, A const*, index i, index left) __attribute__((always_inline)) {
        auto const z = simd::load_partial<lanes>(from + i, left) * broadcast<lanes>(factor);
        return simd::tanh(z) * broadcast<lanes>(cap);
      });
}

template <class T>
void run_operation(stream& s, ops::softcap_backward_arguments<T> const& a) {
  detail::assign<T>(
      s, a, a.dx, [
        from = a.y.data(), gradient = a.dy.data(), scale = static_cast<float>(a.options.scale),
        inverse = static_cast<float>(1 / a.options.cap)
      ](auto lanes, T const*, index i, index left) __attribute__((always_inline)) {
        auto const share = simd::load_partial<lanes>(from + i, left) * broadcast<lanes>(inverse);
        auto const slope = (broadcast<lanes>(1.0F) - share * share) * broadcast<lanes>(scale);
        return simd::load_partial<lanes>(gradient + i, left) * slope;
      });
}

}  // namespace parallel::host
