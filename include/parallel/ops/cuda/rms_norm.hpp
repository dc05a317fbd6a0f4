// rms_norm and its gradients on cuda::stream, for plain C++ compilers: declarations only. Whoever
// includes only this file links with the instantiations for float, bf16 and double (rms_norm.cuh,
// compiled by nvcc somewhere in the program).
#pragma once

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/rms_norm.hpp>

namespace parallel::cuda {

/// All pointers are of the stream's device. Returns when enqueued. Sums of a row are taken in
/// accumulate_t<T>; results have the same bits each time.
template <class T>
void rms_norm_impl(stream& s, ops::rows_view<T> y, vector_view<accumulate_t<T>> rstd,
                   ops::rows_view<T const> x, vector_view<T const> weight,
                   ops::rms_norm_options options);

/// The same.
template <class T>
void rms_norm_backward_input_impl(stream& s, ops::rows_view<T> dx, ops::rows_view<T const> dy,
                                  ops::rows_view<T const> x, vector_view<T const> weight,
                                  vector_view<accumulate_t<T> const> rstd,
                                  ops::rows_view<T const> addend);

/// Two kernels and scratch memory as for layer_norm.
template <class T>
void rms_norm_backward_weight_impl(stream& s, vector_view<accumulate_t<T>> dweight,
                                   ops::rows_view<T const> dy, ops::rows_view<T const> x,
                                   vector_view<accumulate_t<T> const> rstd);

}  // namespace parallel::cuda
