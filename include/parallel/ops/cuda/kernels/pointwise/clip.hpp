// clip and its gradient as kernels. Cost: memory bandwidth.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/cuda/elements.hpp>
#include <parallel/ops/pointwise/clip.hpp>

namespace parallel::cuda::kernels {

/// inside[i] = |x[i]| <= limit, then x[i] = clamp(x[i], ±limit); a NaN stays and is outside.
template <class T>
struct clip {
  T* x;
  std::uint8_t* inside;  // null: not needed
  std::size_t count;
  accumulate_t<T> limit;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    using A = accumulate_t<T>;
    constexpr unsigned N = pack_size<T>;
    for_each_group_of_grid<N>(b, count, groupable<N>(x, inside),
                              [&]<unsigned n>(std::size_t first) {
                                auto values = load_group<n>(x + first);
                                group<std::uint8_t, n> flags;
                                for (unsigned i = 0; i < n; ++i) {
                                  A const value = static_cast<A>(values.value[i]);
                                  flags.value[i] = std::fabs(value) <= limit ? 1 : 0;
                                  if (value > limit) values.value[i] = static_cast<T>(limit);
                                  if (value < -limit) values.value[i] = static_cast<T>(-limit);
                                }
                                if (inside != nullptr) store_group(inside + first, flags);
                                store_group(x + first, values);
                              });
  }
};

/// dx[i] = 0 where inside[i] is 0.
template <class T>
struct clip_backward {
  T* dx;
  std::uint8_t const* inside;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    using A = accumulate_t<T>;
    for_each_element(
        b, count, [](A d, std::uint8_t flag) { return flag == 0 ? A(0) : d; }, dx, dx, inside);
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::clip_arguments<T> const& a) {
  auto* const flags = a.inside.empty() ? nullptr : a.inside.data();
  return grid{blocks_for(a.x.size(), pack_size<T>),
              kernels::clip<T>{a.x.data(), flags, a.x.size(), a.limit}};
}

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::clip_backward_arguments<T> const& a) {
  return grid{blocks_for(a.dx.size(), pack_size<T>),
              kernels::clip_backward<T>{a.dx.data(), a.inside.data(), a.dx.size()}};
}

}  // namespace parallel::cuda
