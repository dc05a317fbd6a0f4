// Launchers of the activations and their gradients on cuda::stream, one kernel for each kind. For
// nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/pointwise/activation.hpp>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/pointwise/activation.hpp>

namespace parallel::cuda {

template <class T>
void enqueue(stream& s, ops::activation_arguments<T> const& a) {
  ops::visit_activation(a.function.kind, [&](auto kind) {
    auto const [blocks, body] =
        kernel_of_form(kernels::activated_value<T, decltype(kind)::value>{}, a);
    detail::launch(s, a.name, blocks, body);
  });
}

template <class T>
void enqueue(stream& s, ops::activation_backward_arguments<T> const& a) {
  ops::visit_activation(a.function.kind, [&](auto kind) {
    auto const [blocks, body] =
        kernel_of_form(kernels::activation_gradient<T, decltype(kind)::value>{}, a);
    detail::launch(s, a.name, blocks, body);
  });
}

}  // namespace parallel::cuda
