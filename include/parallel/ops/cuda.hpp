// Operations on cuda::stream, for plain C++ compilers: a declaration. Link with
// ParallelLM::kernels, which nvcc compiles.
//
// Memory arguments, scalars given by pointer included, are memory of the stream's device or pinned
// memory of the host; the header of each operation states which of its arguments are host memory.
// All calls return when the operation is enqueued. Results have the same bits in each run, but need
// not equal the host's bits. A kernel cannot throw: an id or label outside of the vocabulary gives
// NaN.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>
#include <vector>

#include <parallel/core/config.hpp>
#include <parallel/device/cuda/issuing_stream.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/affine.hpp>
#include <parallel/ops/cuda/matmul.hpp>
#include <parallel/ops/cuda/tuning.hpp>
#include <parallel/ops/norm/norm_gradients.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::cuda {

/// The reasons why calls in bf16 on this stream ran on the plain kernels, which take many times as
/// long (attention_path.hpp has the reasons); empty if all ran on fused ones. Stream is
/// cuda::stream; it is a template parameter, so that programs can test whether the streams of a
/// device support this query.
template <class Stream>
[[nodiscard]] std::vector<std::string_view> plain_attention_reasons(Stream& s);

/// Runs any operation, for the element types that it is compiled for (src/kernels/instances). A
/// .cu file that needs other types includes the operation's kernel and run.cuh.
template <ops::operation_arguments Arguments>
void run_operation(stream& s, Arguments const& a);

}  // namespace parallel::cuda

namespace parallel::ops {

/// cuBLASLt adds a bias while it writes a product, and sums its gradient while it reads operands.
template <std::derived_from<cuda::stream> Stream, class T>
requires(std::is_same_v<T, float> ||
         std::is_same_v<T, bf16>) inline constexpr bool adds_bias_in_products<Stream, T> = true;

/// The cost of gradients of norms is the memory that is read and written.
template <std::derived_from<cuda::stream> Stream>
inline constexpr bool sums_norm_gradients<Stream> = true;

}  // namespace parallel::ops

namespace parallel::cuda {

/// Runs an operation on the stream of collectives, for work on data that they receive.
template <ops::operation_arguments Arguments>
void run_operation(issuing_stream& s, Arguments const& a) {
  s.enqueue_on_device([a](stream& device_stream) { run_operation(device_stream, a); });
}

}  // namespace parallel::cuda
