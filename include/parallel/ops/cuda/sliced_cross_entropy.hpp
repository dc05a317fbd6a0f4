// Cross entropy over a divided vocabulary on cuda::stream, for plain C++ compilers: declarations
// only. Whoever includes only this file links with the instantiations for float, bf16 and double
// (sliced_cross_entropy.cuh, compiled by nvcc somewhere in the program).
#pragma once

#include <cstdint>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/sliced_cross_entropy.hpp>

namespace parallel::cuda {

/// All pointers are of the stream's device. Returns when enqueued. Sums are taken in A by each
/// thread and joined in double; results have the same bits each time.
template <class A, class Logit>
void vocabulary_statistics_impl(stream& s, matrix_view<A> statistics,
                                matrix_view<Logit const> logits,
                                vector_view<std::int32_t const> labels,
                                ops::sliced_cross_entropy_options options);

/// The same. A kernel cannot throw: a label outside of the vocabulary gives a loss and a gradient
/// of NaN.
template <class T, class Loss, class Logit>
void sliced_cross_entropy_impl(stream& s, matrix_view<T> dlogits, vector_view<Loss> losses,
                               vector_view<std::uint8_t> correct, matrix_view<Logit const> logits,
                               vector_view<std::int32_t const> labels,
                               tensor_view<accumulate_t<T> const, 3> statistics,
                               ops::sliced_cross_entropy_options options);

}  // namespace parallel::cuda
