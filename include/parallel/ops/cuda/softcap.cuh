// The launchers of softcap and its gradient on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/softcap.hpp>
#include <parallel/ops/cuda/softcap.hpp>

namespace parallel::cuda {

template <class A>
void softcap_impl(stream& s, std::span<A> y, std::span<A const> x, ops::softcap_options options) {
  detail::launch(s, "softcap", detail::blocks_for(y.size(), pack_size<A>),
                 kernels::softcap<A>{y.data(), x.data(), y.size(), options});
}

template <class T>
void softcap_backward_impl(stream& s, std::span<T> dx, std::span<accumulate_t<T> const> y,
                           std::span<T const> dy, ops::softcap_options options) {
  detail::launch(s, "softcap_backward",
                 detail::blocks_for(dx.size(), group_size<T, accumulate_t<T>>),
                 kernels::softcap_backward<T>{dx.data(), y.data(), dy.data(), dx.size(), options});
}

}  // namespace parallel::cuda
