// rope on cuda::stream, for plain C++ compilers: declarations only.
//
// Whoever includes only this file links with the instantiations for float, bf16 and double
// (rope.cuh, compiled by nvcc somewhere in the program).
#pragma once

#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/heads_view.hpp>
#include <parallel/ops/rope.hpp>

namespace parallel::cuda {

/// Turns the heads of x by 1 (forward) or -1 (back) times their angles. x is
/// memory of the stream's device, options.frequencies of the host's; returns when enqueued.
template <class T>
void rope_impl(stream& s, ops::heads_view<T> x, ops::rope_options options, double direction);

}  // namespace parallel::cuda
