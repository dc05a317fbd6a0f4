// jitter as a kernel: the factors are the host's. Cost: memory bandwidth.
#pragma once

#include <cstddef>

#include <parallel/device/cuda/block.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/experts/jitter.hpp>

namespace parallel::cuda::kernels {

template <class T>
struct jitter {
  T* y;
  T const* x;
  std::size_t count;
  ops::jitter_options options;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for_each_in_grid(b, count, [this](std::size_t i) { y[i] = options.apply(x[i], i); });
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::jitter_arguments<T> const& a) {
  return grid{blocks_for(a.y.size()),
              kernels::jitter<T>{a.y.data(), a.x.data(), a.y.size(), a.options}};
}

}  // namespace parallel::cuda
