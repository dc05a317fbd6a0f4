// The launcher of rope on cuda::stream. For nvcc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/rope.hpp>
#include <parallel/ops/cuda/rope.hpp>

namespace parallel::cuda {

template <class T>
void rope_impl(stream& s, ops::heads_view<T> x, ops::rope_options options, double direction) {
  if (x.size() == 0) return;
  auto const rows = static_cast<std::size_t>(x.batch * x.sequence);
  auto const constants = [&](std::span<double const> values) -> double const* {
    return values.empty() ? nullptr : s.constants(values).data();
  };
  detail::launch(s, "rope", std::min<std::size_t>(rows, 65536),
                 kernels::rope<T>{x, constants(options.frequencies), options.first, direction,
                                  constants(options.growths), options.origin, options.growth_sign},
                 static_cast<std::size_t>(x.head_dim) * sizeof(accumulate_t<T>));
}

}  // namespace parallel::cuda
