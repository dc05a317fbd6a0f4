// Launcher of norm_gradients on cuda::stream. For nvcc.
#pragma once

#include <parallel/ops/cuda/kernels/norm/norm_gradients.hpp>
#include <parallel/ops/cuda/launch_rows.cuh>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/norm/norm_gradients.hpp>

namespace parallel::cuda {

namespace detail {
template <bool Centred, bool Biased, bool Whole, class T>
void launch_norm_gradients(stream& s, ops::norm_gradients_arguments<T> const& a) {
  launch_rows(s, a.name, a.weight_sums.extent(0), a.x.columns,
              kernels::norm_gradients<T, Centred, Biased, Whole>{
                  a.dx, a.weight_sums.data(), Biased ? a.bias_sums.data() : nullptr, a.dy, a.x,
                  a.weight.data(), Centred ? a.mean.data() : nullptr, a.rstd.data(), a.addend,
                  static_cast<accumulate_t<T>>(a.weight_offset)},
              4 * warp_size * sizeof(accumulate_t<T>));
}
template <bool Whole, class T>
void launch_norm_gradients(stream& s, ops::norm_gradients_arguments<T> const& a) {
  if (a.mean.empty())
    launch_norm_gradients<false, false, Whole>(s, a);
  else if (a.bias_sums.empty())
    launch_norm_gradients<true, false, Whole>(s, a);
  else
    launch_norm_gradients<true, true, Whole>(s, a);
}
}  // namespace detail

template <class T>
void enqueue(stream& s, ops::norm_gradients_arguments<T> const& a) {
  if (kernels::whole_rows(a.weight.data(), a.weight.data(), a.dx, a.dy, a.x, a.addend))
    detail::launch_norm_gradients<true>(s, a);
  else
    detail::launch_norm_gradients<false>(s, a);
}

}  // namespace parallel::cuda
