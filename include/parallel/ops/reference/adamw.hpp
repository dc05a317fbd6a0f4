// adamw in a plain loop.
#pragma once

#include <cmath>
#include <cstddef>

#include <parallel/ops/adamw.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

template <class T, class A = accumulate_t<T>>
void adamw_impl(stream&, std::span<T> values, std::span<A> master, std::span<A> exp_avg,
                std::span<A> exp_avg_sq, std::span<A const> gradients,
                ops::adamw_options<A> options) {
  ops::detail::adamw_factors<A> const f(options);
  A const gradient_scale = options.gradient_scale == nullptr ? A(1) : *options.gradient_scale;
  for (std::size_t i = 0; i < values.size(); ++i) {
    A const g = gradients[i] * gradient_scale;
    A const m = f.beta1 * exp_avg[i] + f.one_minus_beta1 * g;
    A const v = f.beta2 * exp_avg_sq[i] + f.one_minus_beta2 * g * g;
    A const denominator = std::sqrt(v) * f.inverse_correction2 + f.eps;
    A const p = master[i] * f.decay - f.step_size * (m / denominator);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    master[i] = p;
    values[i] = static_cast<T>(p);
  }
}

}  // namespace parallel::reference
