// softcap and its gradient as kernels, in accumulate_t<T>. Cost: memory bandwidth.
#pragma once

#include <cmath>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/cuda/kernels/pointwise/elementwise.hpp>
#include <parallel/ops/pointwise/softcap.hpp>

namespace parallel::cuda::kernels {

/// cap tanh(scale x / cap).
template <class A>
struct capped_value : ops::detail::pointwise_function<false> {
  A cap, factor;

  explicit capped_value(ops::softcap_options const& o)
      : cap(static_cast<A>(o.cap)), factor(static_cast<A>(o.scale / o.cap)) {}
  PARALLELLM_DEVICE A operator()(A x) const { return cap * std::tanh(factor * x); }
};

/// dy scale (1 - (y / cap)^2).
template <class A>
struct softcap_gradient : ops::detail::pointwise_function<false> {
  A scale, inverse;

  explicit softcap_gradient(ops::softcap_options const& o)
      : scale(static_cast<A>(o.scale)), inverse(static_cast<A>(1.0 / o.cap)) {}
  PARALLELLM_DEVICE A operator()(A y, A dy) const {
    A const share = y * inverse;
    return dy * (scale * (A(1) - share * share));
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <class T>
[[nodiscard]] auto kernel_form(one_kernel, std::type_identity<T>, ops::capped_value const& f) {
  return kernels::capped_value<accumulate_t<T>>(f.options);
}

template <class T>
[[nodiscard]] auto kernel_form(one_kernel, std::type_identity<T>, ops::softcap_gradient const& f) {
  return kernels::softcap_gradient<accumulate_t<T>>(f.options);
}

}  // namespace parallel::cuda
