// temperature on cuda::stream, for plain C++ compilers: declarations only.
//
// Whoever includes only this file links with the instantiations for float, bf16 and double
// (temperature.cuh, compiled by nvcc somewhere in the program).
#pragma once

#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/rows_view.hpp>
#include <parallel/ops/temperature.hpp>

namespace parallel::cuda {

/// The rows of y times their factors, in place. y and options.document_begins are memory of the
/// stream's device; returns when enqueued.
template <class T>
void temperature_impl(stream& s, ops::rows_view<T> y, ops::temperature_options options);

}  // namespace parallel::cuda
