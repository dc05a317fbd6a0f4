// Launchers of the activations and their gradients on cuda::stream, one kernel for each kind. For
// nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/pointwise/activation.hpp>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/pointwise/activation.hpp>

namespace parallel::cuda {

template <class T>
void enqueue(stream& s, ops::activation_arguments<T> const& a) {
  ops::visit_activation(a.kind, [&](auto kind) {
    detail::launch(
        s, a.name, detail::blocks_for(a.y.size(), pack_size<T>),
        kernels::activation<T, decltype(kind)::value>{a.y.data(), a.x.data(), a.y.size()});
  });
}

template <class T>
void enqueue(stream& s, ops::activation_backward_arguments<T> const& a) {
  ops::visit_activation(a.kind, [&](auto kind) {
    detail::launch(s, a.name, detail::blocks_for(a.dx.size(), pack_size<T>),
                   kernels::activation_backward<T, decltype(kind)::value>{
                       a.dx.data(), a.x.data(), a.dy.data(), a.dx.size()});
  });
}

}  // namespace parallel::cuda
