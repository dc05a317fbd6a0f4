// adamw and lion as a kernel: one pass over the arrays, 16 bytes of each float array at once.
//
// Factors that all elements share are computed on the host in double and passed with the launch.
// The kernel reads the gradient's scale, since the device computes it just before.
#pragma once

#include <cstddef>
#include <utility>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/cuda/elements.hpp>
#include <parallel/ops/update/element_update.hpp>

namespace parallel::cuda::kernels {

template <class Factors, class T, class A = accumulate_t<T>>
struct element_update {
  static constexpr std::size_t count_of_states = std::size(Factors::states);

  T* values;
  A* master;
  A* states[count_of_states];
  A const* gradients;
  A const* gradient_scale;  // null: 1
  Factors factors;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    update(b, std::make_index_sequence<count_of_states>{});
  }

 private:
  template <class Block, std::size_t... State>
  PARALLELLM_DEVICE void update(Block& b, std::index_sequence<State...>) const {
    constexpr unsigned N = group_size<T, A>;
    A const scale = gradient_scale == nullptr ? A(1) : *gradient_scale;
    for_each_group_of_grid<N>(b, count, groupable<N>(values, master, states[State]..., gradients),
                              [this, scale]<unsigned n>(std::size_t first) {
                                auto p = load_group<n>(master + first);
                                group<A, n> averages[] = {load_group<n>(states[State] + first)...};
                                auto const g = load_group<n>(gradients + first);
                                group<T, n> rounded;
                                for (unsigned i = 0; i < n; ++i) {
                                  factors.update(g.value[i] * scale, p.value[i],
                                                 averages[State].value[i]...);
                                  rounded.value[i] = static_cast<T>(p.value[i]);
                                }
                                (store_group(states[State] + first, averages[State]), ...);
                                store_group(master + first, p);
                                store_group(values + first, rounded);
                              });
  }
};

template <class T>
using adamw = element_update<ops::detail::adamw_factors<accumulate_t<T>>, T>;
template <class T>
using lion = element_update<ops::detail::lion_factors<accumulate_t<T>>, T>;

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <template <class> class Factors, class T, class A>
[[nodiscard]] auto kernel_of(one_kernel, ops::update_arguments<Factors, T, A> const& a) {
  auto const launch = [&](auto... state) {
    return grid{blocks_for(a.values.size(), group_size<T, A>),
                kernels::element_update<Factors<A>, T, A>{a.values.data(),
                                                          a.master.data(),
                                                          {state.data()...},
                                                          a.gradients.data(),
                                                          a.options.gradient_scale,
                                                          Factors<A>(a.options),
                                                          a.values.size()}};
  };
  return std::apply(launch, a.states);
}

}  // namespace parallel::cuda
