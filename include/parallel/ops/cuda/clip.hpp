// clip and its gradient on cuda::stream, for plain C++ compilers: declarations only.
//
// Whoever includes only this file links with the instantiations for float, bf16 and double
// (clip.cuh, compiled by nvcc somewhere in the program).
#pragma once

#include <cstdint>
#include <span>

#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/clip.hpp>

namespace parallel::cuda {

/// inside[i] = |x[i]| <= limit, unless empty, then x[i] = clamp(x[i], ±limit). Memory is of the
/// stream's device; returns when enqueued.
template <class T>
void clip_impl(stream& s, std::span<T> x, std::span<std::uint8_t> inside, accumulate_t<T> limit);

/// dx[i] = 0 where inside[i] is 0.
template <class T>
void clip_backward_impl(stream& s, std::span<T> dx, std::span<std::uint8_t const> inside);

}  // namespace parallel::cuda
