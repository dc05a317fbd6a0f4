// gelu and its gradient on cuda::stream: kernels and their launchers. For nvcc.
//
// Φ is CUDA's normcdf, which keeps its relative precision where Φ(x) is small (as the reference
// loops do, by erfc). Arithmetic in accumulate_t<T>, rounded once. Cost: memory bandwidth.
#pragma once

#include <cstddef>

#include <parallel/ops/cuda/gelu.hpp>
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

inline __device__ std::size_t first_element() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
inline __device__ std::size_t element_stride() { return std::size_t{gridDim.x} * blockDim.x; }

template <class T>
__global__ void gelu_kernel(T* y, T const* x, std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += element_stride()) {
    auto const value = static_cast<accumulate_t<T>>(x[i]);
    y[i] = static_cast<T>(value * normal_distribution(value));
  }
}

template <class T>
__global__ void gelu_backward_kernel(T* dx, T const* x, T const* dy, std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += element_stride()) {
    auto const value = static_cast<accumulate_t<T>>(x[i]);
    auto const slope = normal_distribution(value) + value * normal_density(value);
    dx[i] = static_cast<T>(static_cast<accumulate_t<T>>(dy[i]) * slope);
  }
}

}  // namespace detail

template <class T>
void gelu_impl(stream& s, std::span<T> y, std::span<T const> x) {
  detail::launch_over(s, "the launch of gelu", y.size(), detail::gelu_kernel<T>, y.data(),
                      x.data());
}

template <class T>
void gelu_backward_impl(stream& s, std::span<T> dx, std::span<T const> x, std::span<T const> dy) {
  detail::launch_over(s, "the launch of gelu_backward", dx.size(), detail::gelu_backward_kernel<T>,
                      dx.data(), x.data(), dy.data());
}

}  // namespace parallel::cuda
