// The launcher of the plain product on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/matmul.hpp>
#include <parallel/ops/cuda/matmul.hpp>

namespace parallel::cuda {

template <class C, class T>
void plain_matmul(stream& s, matrix_view<C> c, matrix_view<T const> a, matrix_view<T const> b,
                  ops::matmul_options options, matrix_view<std::type_identity_t<C> const> addend) {
  using kernel = kernels::matmul<C, T>;
  index const m = c.extent(0);
  index const n = c.extent(1);
  index const k = a.extent(options.transpose_a ? 0 : 1);
  auto const tiles = static_cast<std::size_t>(kernel::tiles(m, n));
  detail::launch<kernel::block_threads>(
      s, "matmul", std::min<std::size_t>(tiles, 1U << 20U),
      kernel{c.data(), a.data(), b.data(), m, n, k, options.transpose_a, options.transpose_b,
             options.accumulate ? addend.data() : nullptr},
      kernel::shared_bytes);
}

}  // namespace parallel::cuda
