// gelu and its gradient on cuda::stream, for plain C++ compilers: declarations only.
//
// Whoever includes only this file links with the instantiations for float and bf16 (gelu.cuh,
// compiled by nvcc somewhere in the program). A .cu that wants other types includes gelu.cuh.
#pragma once

#include <span>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/gelu.hpp>

namespace parallel::cuda {

/// y[i] = x[i] Φ(x[i]); pointers are of the stream's device. Returns when enqueued.
template <class T>
void gelu_impl(stream& s, std::span<T> y, std::span<T const> x);

/// dx[i] = dy[i] (Φ(x[i]) + x[i] φ(x[i])).
template <class T>
void gelu_backward_impl(stream& s, std::span<T> dx, std::span<T const> x, std::span<T const> dy);

}  // namespace parallel::cuda
