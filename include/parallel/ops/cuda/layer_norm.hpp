// layer_norm and its gradients on cuda::stream, for plain C++ compilers: declarations only. Whoever
// includes only this file links with the instantiations for float, bf16 and double
// (layer_norm.cuh, compiled by nvcc somewhere in the program).
#pragma once

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/layer_norm.hpp>

namespace parallel::cuda {

/// All pointers are of the stream's device. Returns when enqueued. Sums of a row are taken in
/// accumulate_t<T>; results have the same bits each time.
template <class T>
void layer_norm_impl(stream& s, ops::rows_view<T> y, vector_view<accumulate_t<T>> mean,
                     vector_view<accumulate_t<T>> rstd, ops::rows_view<T const> x,
                     vector_view<T const> weight, vector_view<T const> bias,
                     ops::layer_norm_options options);

/// The same.
template <class T>
void layer_norm_backward_input_impl(stream& s, ops::rows_view<T> dx, ops::rows_view<T const> dy,
                                    ops::rows_view<T const> x, vector_view<T const> weight,
                                    vector_view<accumulate_t<T> const> mean,
                                    vector_view<accumulate_t<T> const> rstd,
                                    ops::rows_view<T const> addend);

/// Two kernels, no atomics. Scratch: at most 2 * 512 * 32 packs of accumulate_t<T>, or two rows
/// where those are wider.
template <class T>
void layer_norm_backward_weight_impl(stream& s, vector_view<accumulate_t<T>> dweight,
                                     vector_view<accumulate_t<T>> dbias, ops::rows_view<T const> dy,
                                     ops::rows_view<T const> x,
                                     vector_view<accumulate_t<T> const> mean,
                                     vector_view<accumulate_t<T> const> rstd);

}  // namespace parallel::cuda
