// Activations and their gradients on cuda::stream, for plain C++ compilers: declarations only.
//
// Whoever includes only this file links with the instantiations for float and bf16
// (activation.cuh, compiled by nvcc somewhere in the program). A .cu that wants other types
// includes activation.cuh.
#pragma once

#include <span>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/activation.hpp>

namespace parallel::cuda {

/// y[i] = f(x[i]); pointers are of the stream's device. Returns when enqueued.
template <class T>
void activation_impl(stream& s, std::span<T> y, std::span<T const> x, ops::activation_kind kind);

/// dx[i] = dy[i] f'(x[i]).
template <class T>
void activation_backward_impl(stream& s, std::span<T> dx, std::span<T const> x,
                              std::span<T const> dy, ops::activation_kind kind);

}  // namespace parallel::cuda
