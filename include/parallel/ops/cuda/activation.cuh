// Activations and their gradients on cuda::stream: kernels and their launchers. For nvcc.
//
// Φ is CUDA's normcdf, which keeps its relative precision where Φ(x) is small (as the reference
// loops do, by erfc). Arithmetic in accumulate_t<T>, rounded once. The kind is the same for every
// thread, so its branch costs nothing. Cost: memory bandwidth.
#pragma once

#include <cstddef>

#include <parallel/ops/cuda/activation.hpp>
#include <parallel/ops/cuda/launch.cuh>

namespace parallel::cuda {

namespace detail {

/// Φ(x), the distribution function of the standard normal distribution.
inline __device__ float normal_distribution(float x) { return normcdff(x); }
inline __device__ double normal_distribution(double x) { return normcdf(x); }

/// φ(x), its density: exp(-x²/2) / √(2π).
inline __device__ float normal_density(float x) { return 0.39894228F * expf(-0.5F * x * x); }
inline __device__ double normal_density(double x) {
  return 0.39894228040143267794 * exp(-0.5 * x * x);
}

/// f(x) and f'(x).
template <class A>
struct activated {
  A value;
  A slope;
};

/// x σ(g), where g is a function of x with derivative dg.
template <class A>
__device__ activated<A> gated(A x, A g, A dg) {
  A const share = A(1) / (A(1) + exp(-g));
  return {x * share, share + x * share * (A(1) - share) * dg};
}

template <class A>
__device__ activated<A> activate(ops::activation_kind kind, A x) {
  using enum ops::activation_kind;
  switch (kind) {
    case gelu_tanh: {
      A const factor = A(1.59576912160573071176);  // 2 √(2/π)
      A const cubic = A(0.044715);
      return gated(x, factor * (x + cubic * x * x * x), factor * (A(1) + A(3) * cubic * x * x));
    }
    case quick_gelu: return gated(x, A(1.702) * x, A(1.702));
    case silu: return gated(x, x, A(1));
    case relu: return {x < A(0) ? A(0) : x, x > A(0) ? A(1) : A(0)};
    case gelu: break;
  }
  A const distribution = normal_distribution(x);
  return {x * distribution, distribution + x * normal_density(x)};
}

inline __device__ std::size_t first_element() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
inline __device__ std::size_t element_stride() { return std::size_t{gridDim.x} * blockDim.x; }

template <class T>
__global__ void activation_kernel(T* y, T const* x, ops::activation_kind kind, std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += element_stride())
    y[i] = static_cast<T>(activate(kind, static_cast<accumulate_t<T>>(x[i])).value);
}

template <class T>
__global__ void activation_backward_kernel(T* dx, T const* x, T const* dy,
                                           ops::activation_kind kind, std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += element_stride()) {
    auto const slope = activate(kind, static_cast<accumulate_t<T>>(x[i])).slope;
    dx[i] = static_cast<T>(static_cast<accumulate_t<T>>(dy[i]) * slope);
  }
}

}  // namespace detail

template <class T>
void activation_impl(stream& s, std::span<T> y, std::span<T const> x, ops::activation_kind kind) {
  detail::launch_over(s, "the launch of activation", y.size(), detail::activation_kernel<T>,
                      y.data(), x.data(), kind);
}

template <class T>
void activation_backward_impl(stream& s, std::span<T> dx, std::span<T const> x,
                              std::span<T const> dy, ops::activation_kind kind) {
  detail::launch_over(s, "the launch of activation_backward", dx.size(),
                      detail::activation_backward_kernel<T>, dx.data(), x.data(), dy.data(), kind);
}

}  // namespace parallel::cuda
