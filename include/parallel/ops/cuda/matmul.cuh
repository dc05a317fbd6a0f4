// Launcher of the plain product on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/matmul.hpp>
#include <parallel/ops/cuda/matmul.hpp>

namespace parallel::cuda {

template <class C, class T>
void plain_matmul(stream& s, ops::matmul_arguments<C, T> const& a) {
  using kernel = kernels::matmul<C, T>;
  auto const [transpose_a, transpose_b, accumulate] = a.options;
  index const m = a.c.extent(0);
  index const n = a.c.extent(1);
  index const k = a.a.extent(transpose_a ? 0 : 1);
  auto const tiles = static_cast<std::size_t>(kernel::tiles(m, n));
  detail::launch<kernel::block_threads>(
      s, "matmul", std::min<std::size_t>(tiles, 1U << 20U),
      kernel{a.c.data(), a.a.data(), a.b.data(), m, n, k, transpose_a, transpose_b,
             accumulate ? a.addend.data() : nullptr},
      kernel::shared_bytes);
}

}  // namespace parallel::cuda
