// layer_norm, rms_norm and their gradients on cuda::stream. For nvcc. The gradient of weights uses
// two kernels, no atomics, and scratch of at most 2 * 512 * 32 packs of accumulate_t<T>, or two
// rows if those are wider.
#pragma once

#include <parallel/ops/cuda/kernels/norm/norm.hpp>
#include <parallel/ops/cuda/launch_rows.cuh>
#include <parallel/ops/cuda/norm/norm_weight_gradient.cuh>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/norm/norm.hpp>

namespace parallel::cuda {

namespace detail {
/// A row's sums, one for each warp: two, of which rms_norm needs one.
template <class T, bool Centred>
inline constexpr std::size_t norm_shared_bytes = (Centred ? 2 : 1) * warp_size *
                                                 sizeof(accumulate_t<T>);
}  // namespace detail

template <class T, bool Centred>
void enqueue(stream& s, ops::norm_arguments<T, Centred> const& a) {
  detail::launch_rows(
      s, a.name, a.x.rows, a.x.columns,
      kernels::norm<T, Centred>{a.y, a.x, a.weight.data(), a.bias.empty() ? nullptr : a.bias.data(),
                                a.mean.empty() ? nullptr : a.mean.data(),
                                a.rstd.empty() ? nullptr : a.rstd.data(),
                                static_cast<accumulate_t<T>>(a.options.eps),
                                static_cast<accumulate_t<T>>(a.options.weight_offset)},
      detail::norm_shared_bytes<T, Centred>);
}

template <class T, bool Centred>
void enqueue(stream& s, ops::norm_backward_input_arguments<T, Centred> const& a) {
  detail::launch_rows(s, a.name, a.x.rows, a.x.columns,
                      kernels::norm_backward_input<T, Centred>{
                          a.dx, a.dy, a.x, a.weight.data(), a.mean.data(), a.rstd.data(), a.addend,
                          static_cast<accumulate_t<T>>(a.weight_offset)},
                      detail::norm_shared_bytes<T, Centred>);
}

template <class T, bool Centred>
void enqueue(stream& s, ops::norm_backward_weight_arguments<T, Centred> const& a) {
  detail::norm_weight_gradient<T>(s, a.name, a.dweight.empty() ? nullptr : a.dweight.data(),
                                  a.dbias.empty() ? nullptr : a.dbias.data(), a.dy, a.x,
                                  Centred ? a.mean.data() : nullptr, a.rstd.data());
}

}  // namespace parallel::cuda
