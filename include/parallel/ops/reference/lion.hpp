// lion in a plain loop.
#pragma once

#include <cstddef>

#include <parallel/ops/lion.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

template <class T, class A = accumulate_t<T>>
void lion_impl(stream&, std::span<T> values, std::span<A> master, std::span<A> exp_avg,
               std::span<A const> gradients, ops::lion_options<A> options) {
  ops::detail::lion_factors<A> const f(options);
  A const gradient_scale = options.gradient_scale == nullptr ? A(1) : *options.gradient_scale;
  for (std::size_t i = 0; i < values.size(); ++i) {
    A const m = exp_avg[i];
    A const change = gradients[i] * gradient_scale - m;
    A const direction = m + f.one_minus_beta1 * change;
    A const sign = direction > A(0) ? A(1) : direction < A(0) ? A(-1) : direction;
    A const p = master[i] * f.decay - f.lr * sign;
    exp_avg[i] = m + f.one_minus_beta2 * change;
    master[i] = p;
    values[i] = static_cast<T>(p);
  }
}

}  // namespace parallel::reference
