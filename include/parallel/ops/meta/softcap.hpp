// softcap on the meta device: tanh counts as one operation, so 3 an element; its gradient is 5.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/softcap.hpp>

namespace parallel::meta {

template <class A>
void softcap_impl(stream& s, std::span<A> y, std::span<A const>, ops::softcap_options) {
  s.count(3 * y.size());
}

template <class T>
void softcap_backward_impl(stream& s, std::span<T> dx, std::span<accumulate_t<T> const>,
                           std::span<T const>, ops::softcap_options) {
  s.count(5 * dx.size());
}

}  // namespace parallel::meta
