// dropout on cuda::stream, for plain C++ compilers: declarations only.
//
// Whoever includes only this file links with the instantiations for float, bf16 and double
// (dropout.cuh, compiled by nvcc somewhere in the program).
#pragma once

#include <span>

#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/dropout.hpp>

namespace parallel::cuda {

/// y[i] = x[i] / (1 - p), or 0 where dropped; the same elements as on any other device. Memory is
/// of the stream's device; returns when enqueued.
template <class T>
void dropout_impl(stream& s, std::span<T> y, std::span<T const> x, ops::dropout_options options);

}  // namespace parallel::cuda
