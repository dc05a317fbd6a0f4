// The launcher of comm/cuda/combine.hpp. For nvcc.
#pragma once

#include <cstddef>
#include <span>

#include <parallel/comm/cuda/combine.hpp>
#include <parallel/comm/cuda/data_mover.hpp>
#include <parallel/device/cuda/launch.cuh>

namespace parallel::cuda {

namespace detail {

template <class T, int MaxSources>
void combine_up_to(stream& s, reduction op, std::span<void* const> outs,
                   std::span<void const* const> sources, std::size_t count) {
  kernels::combine<T, MaxSources> body{};
  for (std::size_t i = 0; i < outs.size(); ++i) body.outs[i] = outs[i];
  for (std::size_t i = 0; i < sources.size(); ++i)
    body.sources[i] = static_cast<T const*>(sources[i]);
  body.num_outs = static_cast<int>(outs.size());
  body.num_sources = static_cast<int>(sources.size());
  body.op = op;
  body.count = count;
  launch(s, "the combination of the ranks' values", blocks_for(count), body);
}

}  // namespace detail

template <class T>
void combine_on(stream& s, reduction op, std::span<void* const> outs,
                std::span<void const* const> sources, std::size_t count) {
  constexpr int max_sources = 2048;
  require(outs.size() <= kernels::max_ranks, "at most ", kernels::max_ranks,
          " ranks can share a GPU, there are ", outs.size());
  require(sources.size() <= max_sources, "the values of at most ", max_sources,
          " ranks are combined, there are ", sources.size(),
          "; use a reduction that NCCL has (reduce_dtype: fp32)");
  if (sources.size() <= kernels::max_ranks)
    detail::combine_up_to<T, kernels::max_ranks>(s, op, outs, sources, count);
  else
    detail::combine_up_to<T, max_sources>(s, op, outs, sources, count);
}

}  // namespace parallel::cuda
