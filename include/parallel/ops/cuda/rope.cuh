// The launcher of rope on cuda::stream. For nvcc.
#pragma once

#include <algorithm>
#include <cstddef>

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/rope.hpp>
#include <parallel/ops/cuda/rope.hpp>

namespace parallel::cuda {

template <class T>
void rope_impl(stream& s, ops::heads_view<T> x, ops::rope_options options, double direction) {
  if (x.size() == 0) return;
  auto const rows = static_cast<std::size_t>(x.batch * x.sequence);
  detail::launch(
      s, "rope", std::min<std::size_t>(rows, 65536),
      kernels::rope<T>{x, s.constants(options.frequencies).data(), options.first, direction},
      static_cast<std::size_t>(x.head_dim) * sizeof(accumulate_t<T>));
}

}  // namespace parallel::cuda
