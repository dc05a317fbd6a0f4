// Reductions on cuda::stream, for plain C++ compilers: declarations only. Whoever includes only
// this file links with the instantiations for float, bf16, double and integers (reduce.cuh,
// compiled by nvcc somewhere in the program).
#pragma once

#include <span>

#include <parallel/core/exact_sum.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/reduce.hpp>

namespace parallel::cuda {

/// All pointers, `out` too, are of the stream's device or of pinned host memory. Returns when
/// enqueued. Sums of an array have the same bits each time; that they equal those of the host to
/// the last bit is not promised.
template <class T>
void squared_norm_impl(stream& s, ops::sum_t<T>* out, std::span<T const> x);

/// The same digits as on every device. Cost: one pass; some 30 instructions an element.
template <class T>
void exact_squared_norm_impl(stream& s, exact_sum* out, std::span<T const> x);

template <class T>
void sum_impl(stream& s, ops::sum_t<T>* out, std::span<T const> x);

template <class T>
void all_finite_impl(stream& s, int* out, std::span<T const> x);

}  // namespace parallel::cuda
