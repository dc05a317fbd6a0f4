// cross_entropy on cuda::stream, for plain C++ compilers: a declaration. Whoever includes only this
// file links with the instantiations for float, bf16 and double (cross_entropy.cuh, compiled by
// nvcc somewhere in the program).
#pragma once

#include <cstdint>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/cross_entropy.hpp>

namespace parallel::cuda {

/// All pointers are of the stream's device. Returns when enqueued. Sums are taken in
/// accumulate_t<T> by each thread and joined in double; results have the same bits each time. A
/// kernel cannot throw: a label outside of the vocabulary gives a loss and a gradient of NaN.
template <class T, class Loss, class Logit>
void cross_entropy_impl(stream& s, matrix_view<T> dlogits, vector_view<Loss> losses,
                        vector_view<std::uint8_t> correct, matrix_view<Logit const> logits,
                        vector_view<std::int32_t const> labels, ops::cross_entropy_options options);

}  // namespace parallel::cuda
