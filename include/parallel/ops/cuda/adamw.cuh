// The launcher of adamw on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/adamw.hpp>
#include <parallel/ops/cuda/kernels/adamw.hpp>

namespace parallel::cuda {

template <class T, class A>
void adamw_impl(stream& s, std::span<T> values, std::span<A> master, std::span<A> exp_avg,
                std::span<A> exp_avg_sq, std::span<A const> gradients,
                ops::adamw_options<A> options) {
  detail::launch(s, "adamw", detail::blocks_for(values.size(), group_size<T, A>),
                 kernels::adamw<T, A>{values.data(), master.data(), exp_avg.data(),
                                      exp_avg_sq.data(), gradients.data(), options.gradient_scale,
                                      ops::detail::adamw_factors<A>(options), values.size()});
}

}  // namespace parallel::cuda
