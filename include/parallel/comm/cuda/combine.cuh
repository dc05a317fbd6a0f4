// The launcher of comm/cuda/combine.hpp. For nvcc.
#pragma once

#include <cstddef>
#include <span>

#include <parallel/comm/cuda/combine.hpp>
#include <parallel/comm/cuda/data_mover.hpp>
#include <parallel/device/cuda/launch.cuh>

namespace parallel::cuda {

template <class T>
void combine_on(stream& s, reduction how, std::span<void* const> outs,
                std::span<void const* const> sources, std::size_t count) {
  require(outs.size() <= kernels::most_outs, "at most ", kernels::most_outs,
          " ranks can share a GPU, there are ", outs.size());
  require(sources.size() <= kernels::most_sources, "the values of at most ", kernels::most_sources,
          " ranks are combined, there are ", sources.size(),
          "; use a reduction that NCCL has (reduce_dtype: fp32)");
  kernels::combine<T> body{};
  for (std::size_t i = 0; i < outs.size(); ++i) body.outs[i] = outs[i];
  for (std::size_t i = 0; i < sources.size(); ++i)
    body.sources[i] = static_cast<T const*>(sources[i]);
  body.num_outs = static_cast<int>(outs.size());
  body.num_sources = static_cast<int>(sources.size());
  body.how = how;
  body.count = count;
  detail::launch(s, "the combination of the ranks' values", detail::blocks_for(count), body);
}

}  // namespace parallel::cuda
