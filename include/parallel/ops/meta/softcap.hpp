// softcap on the meta device: tanh counts as one operation, so 3 an element; its gradient is 5.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/softcap.hpp>

namespace parallel::meta {

template <class A>
void softcap_impl(stream& s, std::span<A> y, std::span<A const> x, ops::softcap_options) {
  s.touch(y, x);
  s.count(3 * y.size());
}

template <class T>
void softcap_backward_impl(stream& s, std::span<T> dx, std::span<accumulate_t<T> const> y,
                           std::span<T const> dy, ops::softcap_options) {
  s.touch(dx, y, dy);
  s.count(5 * dx.size());
}

}  // namespace parallel::meta
