// The launchers of clip and its gradient on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/clip.hpp>
#include <parallel/ops/cuda/kernels/clip.hpp>

namespace parallel::cuda {

template <class T>
void clip_impl(stream& s, std::span<T> x, std::span<std::uint8_t> inside, accumulate_t<T> limit) {
  auto* const flags = inside.empty() ? nullptr : inside.data();
  detail::launch(s, "clip", detail::blocks_for(x.size(), pack_size<T>),
                 kernels::clip<T>{x.data(), flags, x.size(), limit});
}

template <class T>
void clip_backward_impl(stream& s, std::span<T> dx, std::span<std::uint8_t const> inside) {
  detail::launch(s, "clip_backward", detail::blocks_for(dx.size(), pack_size<T>),
                 kernels::clip_backward<T>{dx.data(), inside.data(), dx.size()});
}

}  // namespace parallel::cuda
