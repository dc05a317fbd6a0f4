// lion as a kernel: one pass over the four arrays, 16 bytes of each float array at once.
//
// Factors that all elements share are computed on the host in double and passed with the launch.
// The kernel reads the gradient's scale, since the device computes it just before.
#pragma once

#include <cstddef>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/cuda/elements.hpp>
#include <parallel/ops/update/lion.hpp>

namespace parallel::cuda::kernels {

template <class T, class A = accumulate_t<T>>
struct lion {
  T* values;
  A* master;
  A* exp_avg;
  A const* gradients;
  A const* gradient_scale;  // null: 1
  ops::detail::lion_factors<A> factors;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    constexpr unsigned N = group_size<T, A>;
    A const scale = gradient_scale == nullptr ? A(1) : *gradient_scale;
    for_each_group_of_grid<N>(b, count, groupable<N>(values, master, exp_avg, gradients),
                              [this, scale]<unsigned n>(std::size_t first) {
                                auto p = load_group<n>(master + first);
                                auto m = load_group<n>(exp_avg + first);
                                auto const g = load_group<n>(gradients + first);
                                group<T, n> rounded;
                                for (unsigned i = 0; i < n; ++i) {
                                  update(p.value[i], m.value[i], g.value[i] * scale);
                                  rounded.value[i] = static_cast<T>(p.value[i]);
                                }
                                store_group(exp_avg + first, m);
                                store_group(master + first, p);
                                store_group(values + first, rounded);
                              });
  }

 private:
  PARALLELLM_DEVICE void update(A& p, A& m, A g) const {
    A const change = g - m;
    A const direction = m + factors.one_minus_beta1 * change;
    A const sign = direction > A(0) ? A(1) : direction < A(0) ? A(-1) : direction;
    p = p * factors.decay - factors.lr * sign;
    m = m + factors.one_minus_beta2 * change;
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <class T, class A>
[[nodiscard]] auto kernel_of(one_kernel, ops::lion_arguments<T, A> const& a) {
  return grid{blocks_for(a.values.size(), group_size<T, A>),
              kernels::lion<T, A>{a.values.data(), a.master.data(), a.exp_avg.data(),
                                  a.gradients.data(), a.options.gradient_scale,
                                  ops::detail::lion_factors<A>(a.options), a.values.size()}};
}

}  // namespace parallel::cuda
