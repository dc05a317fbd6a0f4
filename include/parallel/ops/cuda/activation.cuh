// The launchers of activations on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/activation.hpp>
#include <parallel/ops/cuda/kernels/activation.hpp>

namespace parallel::cuda {

template <class T>
void activation_impl(stream& s, std::span<T> y, std::span<T const> x, ops::activation_kind kind) {
  detail::launch(s, "activation", detail::blocks_for(y.size(), pack_size<T>),
                 kernels::activation<T>{y.data(), x.data(), kind, y.size()});
}

template <class T>
void activation_backward_impl(stream& s, std::span<T> dx, std::span<T const> x,
                              std::span<T const> dy, ops::activation_kind kind) {
  detail::launch(s, "activation_backward", detail::blocks_for(dx.size(), pack_size<T>),
                 kernels::activation_backward<T>{dx.data(), x.data(), dy.data(), kind, dx.size()});
}

}  // namespace parallel::cuda
