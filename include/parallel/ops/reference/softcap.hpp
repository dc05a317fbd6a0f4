// softcap and its gradient in plain loops.
#pragma once

#include <cmath>
#include <cstddef>

#include <parallel/ops/reference/stream.hpp>
#include <parallel/ops/softcap.hpp>

namespace parallel::reference {

template <class A>
void softcap_impl(stream&, std::span<A> y, std::span<A const> x, ops::softcap_options options) {
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = static_cast<A>(options.cap * std::tanh(options.scale * double(x[i]) / options.cap));
}

template <class T>
void softcap_backward_impl(stream&, std::span<T> dx, std::span<accumulate_t<T> const> y,
                           std::span<T const> dy, ops::softcap_options options) {
  for (std::size_t i = 0; i < dx.size(); ++i) {
    double const share = double(y[i]) / options.cap;
    double const slope = options.scale * (1.0 - share * share);
    dx[i] = static_cast<T>(static_cast<accumulate_t<T>>(double(dy[i]) * slope));
  }
}

}  // namespace parallel::reference
