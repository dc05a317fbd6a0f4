// softcap and its gradient on cuda::stream, for plain C++ compilers: declarations only.
//
// Whoever includes only this file links with the instantiations for float, bf16 (the gradient
// alone) and double (softcap.cuh, compiled by nvcc somewhere in the program).
#pragma once

#include <span>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/softcap.hpp>

namespace parallel::cuda {

/// y[i] = cap tanh(scale x[i] / cap), in A. Memory is of the stream's device; returns when
/// enqueued.
template <class A>
void softcap_impl(stream& s, std::span<A> y, std::span<A const> x, ops::softcap_options options);

/// dx[i] = dy[i] scale (1 - (y[i] / cap)^2), in accumulate_t<T>.
template <class T>
void softcap_backward_impl(stream& s, std::span<T> dx, std::span<accumulate_t<T> const> y,
                           std::span<T const> dy, ops::softcap_options options);

}  // namespace parallel::cuda
