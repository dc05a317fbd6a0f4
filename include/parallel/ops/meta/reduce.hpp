// Reductions on the meta device: two operations an element for squared_norm, one for sum.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/reduce.hpp>

namespace parallel::meta {

template <class T>
void squared_norm_impl(stream& s, ops::sum_t<T>*, std::span<T const> x) {
  s.touch(x);
  s.count(2 * x.size());
}

template <class T>
void exact_squared_norm_impl(stream& s, exact_sum*, std::span<T const> x) {
  s.count(2 * x.size());
}

template <class T>
void sum_impl(stream& s, ops::sum_t<T>*, std::span<T const> x) {
  s.touch(x);
  s.count(x.size());
}

template <class T>
void all_finite_impl(stream&, int*, std::span<T const>) {}

}  // namespace parallel::meta
