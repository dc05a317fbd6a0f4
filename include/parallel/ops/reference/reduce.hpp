// Reductions in plain loops.
#pragma once

#include <cmath>

#include <parallel/ops/reduce.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

template <class T>
void squared_norm_impl(stream&, ops::sum_t<T>* out, std::span<T const> x) {
  ops::sum_t<T> sum = 0;
  for (T const element : x) {
    auto const value = static_cast<ops::sum_t<T>>(element);
    sum += value * value;
  }
  *out += sum;
}

template <class T>
void exact_squared_norm_impl(stream&, exact_sum* out, std::span<T const> x) {
  for (T const element : x) {
    auto const value = static_cast<double>(element);
    out->add(value * value);
  }
}

template <class T>
void sum_impl(stream&, ops::sum_t<T>* out, std::span<T const> x) {
  ops::sum_t<T> sum = 0;
  for (T const element : x) sum += static_cast<ops::sum_t<T>>(element);
  *out += sum;
}

template <class T>
void all_finite_impl(stream&, int* out, std::span<T const> x) {
  if constexpr (!std::is_integral_v<T>)  // an integer is always finite
    for (T const element : x)
      if (!std::isfinite(accumulate_t<T>(element))) *out = 0;
}

}  // namespace parallel::reference
