// The launcher of lion on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/lion.hpp>
#include <parallel/ops/cuda/lion.hpp>

namespace parallel::cuda {

template <class T, class A>
void lion_impl(stream& s, std::span<T> values, std::span<A> master, std::span<A> exp_avg,
               std::span<A const> gradients, ops::lion_options<A> options) {
  detail::launch(s, "lion", detail::blocks_for(values.size(), group_size<T, A>),
                 kernels::lion<T, A>{values.data(), master.data(), exp_avg.data(), gradients.data(),
                                     options.gradient_scale, ops::detail::lion_factors<A>(options),
                                     values.size()});
}

}  // namespace parallel::cuda
