// softcap and its gradient on the host.
#pragma once

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/host/math.hpp>
#include <parallel/ops/reference/softcap.hpp>
#include <parallel/ops/softcap.hpp>

namespace parallel::host {

template <class A>
void softcap_impl(stream& s, std::span<A> y, std::span<A const> x, ops::softcap_options options) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<A>) {
      for_packs(
          threads, std::ssize(y), [
            to = y.data(), from = x.data(), cap = static_cast<float>(options.cap),
            factor = static_cast<float>(options.scale / options.cap)
          ](auto lanes, index i, index left) __attribute__((always_inline)) {
            auto const z = simd::load_partial<lanes>(from + i, left) * broadcast<lanes>(factor);
            simd::store_partial(to + i, simd::tanh(z) * broadcast<lanes>(cap), left);
          });
    } else {
      reference::stream here;
      ops::softcap(here, y, x, options);
    }
  });
}

template <class T>
void softcap_backward_impl(stream& s, std::span<T> dx, std::span<accumulate_t<T> const> y,
                           std::span<T const> dy, ops::softcap_options options) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_packs(
          threads, std::ssize(dx), [
            to = dx.data(), from = y.data(), gradient = dy.data(),
            scale = static_cast<float>(options.scale), inverse = static_cast<float>(1 / options.cap)
          ](auto lanes, index i, index left) __attribute__((always_inline)) {
            simd::pack<float, lanes> const one(1.0F);
            auto const share =
                simd::load_partial<lanes>(from + i, left) * broadcast<lanes>(inverse);
            auto const slope = (one - share * share) * broadcast<lanes>(scale);
            simd::store_partial(to + i, simd::load_partial<lanes>(gradient + i, left) * slope,
                                left);
          });
    } else {
      reference::stream here;
      ops::softcap_backward(here, dx, y, dy, options);
    }
  });
}

}  // namespace parallel::host
