// Launcher of rope on cuda::stream. For nvcc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include <parallel/ops/attention/rope.hpp>
#include <parallel/ops/cuda/kernels/attention/rope.hpp>
#include <parallel/ops/cuda/run.cuh>

namespace parallel::cuda {

template <class T>
void enqueue(stream& s, ops::rope_arguments<T> const& a) {
  if (a.x.size() == 0) return;
  auto const rows = static_cast<std::size_t>(a.x.batch * a.x.sequence);
  auto const constants = [&](std::span<double const> values) -> double const* {
    return values.empty() ? nullptr : s.constants(values).data();
  };
  detail::launch(s, "rope", std::min<std::size_t>(rows, 65536),
                 kernels::rope<T>{a.x, constants(a.options.frequencies),
                                  static_cast<unsigned>(a.options.pairs()), a.options.first,
                                  a.direction, constants(a.options.growths), a.options.origin,
                                  a.options.growth_sign, a.options.scale},
                 static_cast<std::size_t>(2 * a.options.pairs()) * sizeof(accumulate_t<T>));
}

}  // namespace parallel::cuda
