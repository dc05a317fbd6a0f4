// The launcher of comm/cuda/combine.hpp. For nvcc.
#pragma once

#include <cstddef>
#include <span>

#include <parallel/comm/cuda/combine.hpp>
#include <parallel/comm/cuda/data_mover.hpp>
#include <parallel/device/cuda/launch.cuh>

namespace parallel::cuda {

namespace detail {

template <class T, int Most>
void combine_at_most(stream& s, reduction how, std::span<void* const> outs,
                     std::span<void const* const> sources, std::size_t count) {
  kernels::combine<T, Most> body{};
  for (std::size_t i = 0; i < outs.size(); ++i) body.outs[i] = outs[i];
  for (std::size_t i = 0; i < sources.size(); ++i)
    body.sources[i] = static_cast<T const*>(sources[i]);
  body.num_outs = static_cast<int>(outs.size());
  body.num_sources = static_cast<int>(sources.size());
  body.how = how;
  body.count = count;
  launch(s, "the combination of the ranks' values", blocks_for(count), body);
}

}  // namespace detail

template <class T>
void combine_on(stream& s, reduction how, std::span<void* const> outs,
                std::span<void const* const> sources, std::size_t count) {
  constexpr int most = 2048;
  require(outs.size() <= kernels::most_ranks, "at most ", kernels::most_ranks,
          " ranks can share a GPU, there are ", outs.size());
  require(sources.size() <= most, "the values of at most ", most, " ranks are combined, there are ",
          sources.size(), "; use a reduction that NCCL has (reduce_dtype: fp32)");
  if (sources.size() <= kernels::most_ranks)
    detail::combine_at_most<T, kernels::most_ranks>(s, how, outs, sources, count);
  else
    detail::combine_at_most<T, most>(s, how, outs, sources, count);
}

}  // namespace parallel::cuda
