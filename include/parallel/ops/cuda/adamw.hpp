// adamw on cuda::stream, for plain C++ compilers: declarations only.
//
// Whoever includes only this file links with the instantiations for float, bf16 and double
// (adamw.cuh, compiled by nvcc somewhere in the program).
#pragma once

#include <span>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/adamw.hpp>

namespace parallel::cuda {

/// One update in place. All arrays are of the stream's device, and options.gradient_scale is memory
/// that the device reads when the kernel runs. Returns when enqueued.
template <class T, class A = accumulate_t<T>>
void adamw_impl(stream& s, std::span<T> values, std::span<A> master, std::span<A> exp_avg,
                std::span<A> exp_avg_sq, std::span<A const> gradients,
                ops::adamw_options<A> options);

}  // namespace parallel::cuda
