// adamw on the meta device: 15 operations an element.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/adamw.hpp>

namespace parallel::meta {

template <class T, class A = accumulate_t<T>>
void adamw_impl(stream& s, std::span<T> values, std::span<A>, std::span<A>, std::span<A>,
                std::span<A const>, ops::adamw_options<A>) {
  s.count(15 * values.size());
}

}  // namespace parallel::meta
