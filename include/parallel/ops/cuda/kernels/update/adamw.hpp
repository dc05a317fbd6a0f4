// adamw as a kernel: one pass over the five arrays, 16 bytes of each float array at once.
//
// Factors that all elements share are computed on the host in double and passed with the launch.
// The kernel reads the gradient's scale, since the device computes it just before.
#pragma once

#include <cmath>
#include <cstddef>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/cuda/elements.hpp>
#include <parallel/ops/update/adamw.hpp>

namespace parallel::cuda::kernels {

template <class T, class A = accumulate_t<T>>
struct adamw {
  T* values;
  A* master;
  A* exp_avg;
  A* exp_avg_sq;
  A const* gradients;
  A const* gradient_scale;  // null: 1
  ops::detail::adamw_factors<A> factors;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    constexpr unsigned N = group_size<T, A>;
    A const scale = gradient_scale == nullptr ? A(1) : *gradient_scale;
    for_each_group_of_grid<N>(b, count,
                              groupable<N>(values, master, exp_avg, exp_avg_sq, gradients),
                              [this, scale]<unsigned n>(std::size_t first) {
                                auto p = load_group<n>(master + first);
                                auto m = load_group<n>(exp_avg + first);
                                auto v = load_group<n>(exp_avg_sq + first);
                                auto const g = load_group<n>(gradients + first);
                                group<T, n> rounded;
                                for (unsigned i = 0; i < n; ++i) {
                                  update(p.value[i], m.value[i], v.value[i], g.value[i] * scale);
                                  rounded.value[i] = static_cast<T>(p.value[i]);
                                }
                                store_group(exp_avg + first, m);
                                store_group(exp_avg_sq + first, v);
                                store_group(master + first, p);
                                store_group(values + first, rounded);
                              });
  }

 private:
  PARALLELLM_DEVICE void update(A& p, A& m, A& v, A g) const {
    m = factors.beta1 * m + factors.one_minus_beta1 * g;
    v = factors.beta2 * v + factors.one_minus_beta2 * g * g;
    A const denominator = std::sqrt(v) * factors.inverse_correction2 + factors.eps;
    p = p * factors.decay - factors.step_size * (m / denominator);
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <class T, class A>
[[nodiscard]] auto kernel_of(one_kernel, ops::adamw_arguments<T, A> const& a) {
  return grid{
      blocks_for(a.values.size(), group_size<T, A>),
      kernels::adamw<T, A>{a.values.data(), a.master.data(), a.exp_avg.data(), a.exp_avg_sq.data(),
                           a.gradients.data(), a.options.gradient_scale,
                           ops::detail::adamw_factors<A>(a.options), a.values.size()}};
}

}  // namespace parallel::cuda
