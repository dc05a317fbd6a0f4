// step_totals and gradient_scale on cuda::stream, for plain C++ compilers: declarations only.
//
// Whoever includes only this file links with the instantiations for double and std::uint64_t, of
// scales float and double (step_results.cuh, compiled by nvcc somewhere in the program).
#pragma once

#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/step_results.hpp>

namespace parallel::cuda {

/// *out = the sums of the microbatches and *squared_norm. Memory is shared with the stream's device
/// (device::allocate_shared), here and below; returns when enqueued.
template <class L>
void step_totals_impl(stream& s, ops::step_sums<L>* out,
                      std::span<statistics<L> const> microbatches, L const* squares);

/// *out = what the sum of gradients is multiplied by.
template <class A>
void gradient_scale_impl(stream& s, A* out, ops::step_sums<double> const* sums, double threshold);

}  // namespace parallel::cuda
