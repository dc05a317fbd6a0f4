// lion on the meta device: 9 operations an element.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/lion.hpp>

namespace parallel::meta {

template <class T, class A = accumulate_t<T>>
void lion_impl(stream& s, std::span<T> values, std::span<A>, std::span<A>, std::span<A const>,
               ops::lion_options<A>) {
  s.count(9 * values.size());
}

}  // namespace parallel::meta
