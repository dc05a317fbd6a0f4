// add_bias and its gradient on cuda::stream, for plain C++ compilers: declarations only.
//
// Whoever includes only this file links with the instantiations for float, bf16, double and
// std::uint64_t (bias.cuh, compiled by nvcc somewhere in the program).
#pragma once

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/bias.hpp>

namespace parallel::cuda {

/// y[m,n] += bias[n], plus addend[m,n] if there is one. Memory is of the stream's device; returns
/// when enqueued.
template <class T>
void add_bias_impl(stream& s, matrix_view<T> y, vector_view<T const> bias,
                   matrix_view<T const> addend);

/// dbias[n] += sum over m of dy[m,n], in an order that the shape alone decides.
template <class T>
void add_bias_backward_impl(stream& s, vector_view<accumulate_t<T>> dbias, matrix_view<T const> dy);

}  // namespace parallel::cuda
