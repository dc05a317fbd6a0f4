// Operations on cuda::stream, for plain C++ compilers: a declaration, linked with
// ParallelLM::kernels, which nvcc has compiled.
//
// Memory, scalars that are given by pointer among it, is of the stream's device or of pinned memory
// of the host; what a call says of the host's memory stands at the operation. All return when
// enqueued. Results have the same bits each time; that they equal the host's to the last bit is not
// promised. A kernel cannot throw: an id or label outside of the vocabulary gives NaN.
#pragma once

#include <concepts>
#include <type_traits>

#include <parallel/device/cuda/issuing_stream.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/affine.hpp>
#include <parallel/ops/cuda/attention.hpp>
#include <parallel/ops/cuda/matmul.hpp>
#include <parallel/ops/cuda/tuning.hpp>
#include <parallel/ops/norm_gradients.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::cuda {

/// Any operation, of the elements it is compiled for (apps/kernels/instances). A .cu that wants
/// others includes its kernel and run.cuh.
template <ops::operation_arguments Arguments>
void run_operation(stream& s, Arguments const& a);

}  // namespace parallel::cuda

namespace parallel::ops {

/// cuBLASLt adds them where it writes a product, and sums gradients up where it reads them.
template <std::derived_from<cuda::stream> Stream, class T>
requires(std::is_same_v<T, float> ||
         std::is_same_v<T, bf16>) inline constexpr bool adds_bias_in_products<Stream, T> = true;

/// Norms' gradients cost what is read and written.
template <std::derived_from<cuda::stream> Stream>
inline constexpr bool sums_norm_gradients<Stream> = true;

}  // namespace parallel::ops

namespace parallel::cuda {

/// On the stream of exchanges, for what is done with what arrives.
template <ops::operation_arguments Arguments>
void run_operation(issuing_stream& s, Arguments const& a) {
  s.on_device([a](stream& on) { run_operation(on, a); });
}

}  // namespace parallel::cuda
