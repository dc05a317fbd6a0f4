// softcap and its gradient as kernels, in accumulate_t<T>. Cost: memory bandwidth.
#pragma once

#include <cmath>
#include <cstddef>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/cuda/elements.hpp>
#include <parallel/ops/pointwise/softcap.hpp>

namespace parallel::cuda::kernels {

/// y[i] = cap tanh(scale x[i] / cap).
template <class A>
struct softcap {
  A* y;
  A const* x;
  std::size_t count;
  ops::softcap_options options;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto const cap = static_cast<A>(options.cap);
    auto const factor = static_cast<A>(options.scale / options.cap);
    for_each_element(
        b, count, [=](A v) { return cap * std::tanh(factor * v); }, y, x);
  }
};

/// dx[i] = dy[i] scale (1 - (y[i] / cap)^2).
template <class T>
struct softcap_backward {
  T* dx;
  accumulate_t<T> const* y;
  T const* dy;
  std::size_t count;
  ops::softcap_options options;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    using A = accumulate_t<T>;
    auto const scale = static_cast<A>(options.scale);
    auto const inverse = static_cast<A>(1.0 / options.cap);
    for_each_element(
        b, count,
        [=](A v, A d) {
          A const share = v * inverse;
          return d * (scale * (A(1) - share * share));
        },
        dx, y, dy);
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <class A>
[[nodiscard]] auto kernel_of(one_kernel, ops::softcap_arguments<A> const& a) {
  return grid{blocks_for(a.y.size(), pack_size<A>),
              kernels::softcap<A>{a.y.data(), a.x.data(), a.y.size(), a.options}};
}

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::softcap_backward_arguments<T> const& a) {
  return grid{
      blocks_for(a.dx.size(), group_size<T, accumulate_t<T>>),
      kernels::softcap_backward<T>{a.dx.data(), a.y.data(), a.dy.data(), a.dx.size(), a.options}};
}

}  // namespace parallel::cuda
