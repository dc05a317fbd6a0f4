// rope on the meta device: six operations a pair of elements; sines and cosines are not counted.
#pragma once

#include <cstdint>

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/rope.hpp>

namespace parallel::meta {

template <class T>
void rope_impl(stream& s, ops::heads_view<T> x, ops::rope_options, double) {
  s.touch(updates(x));
  s.count(3 * static_cast<std::uint64_t>(x.size()));
}

}  // namespace parallel::meta
