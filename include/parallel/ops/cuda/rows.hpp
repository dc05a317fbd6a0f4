// Sums of squares by row, and scaling by row, on cuda::stream, for plain C++ compilers:
// declarations only.
//
// Whoever includes only this file links with the instantiations for float, bf16 and double
// (rows.cuh, compiled by nvcc somewhere in the program).
#pragma once

#include <span>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/rows.hpp>

namespace parallel::cuda {

/// out[r] += sum of x[i]^2 over the elements in row r. Memory is of the stream's device; returns
/// when enqueued.
template <class T>
void row_squared_norms_impl(stream& s, std::span<double> out, std::span<T const> x,
                            ops::rows_place place);

/// x[i] *= factors[row of i].
template <class T>
void scale_rows_impl(stream& s, std::span<T> x, std::span<accumulate_t<T> const> factors,
                     ops::rows_place place);

}  // namespace parallel::cuda
