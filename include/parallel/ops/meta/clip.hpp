// clip on the meta device: comparisons are not counted.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/clip.hpp>

namespace parallel::meta {

template <class T>
void clip_impl(stream&, std::span<T>, std::span<std::uint8_t>, accumulate_t<T>) {}

template <class T>
void clip_backward_impl(stream&, std::span<T>, std::span<std::uint8_t const>) {}

}  // namespace parallel::meta
