// Element-wise operations on the meta device: fill, copy and cast compute nothing, axpby
// does three operations an element, the others one.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/elementwise.hpp>

namespace parallel::meta {

template <class T>
void fill_impl(stream& s, std::span<T> y, T) {
  s.touch(y);
}

template <class T>
void copy_impl(stream& s, std::span<T> y, std::span<T const> x) {
  s.touch(y, x);
}

template <class T>
void copy_impl(stream& s, ops::rows_view<T> y, ops::rows_view<T const> x) {
  s.touch(y, x);
}

template <class T>
void add_impl(stream& s, std::span<T> y, std::span<T const> x) {
  s.touch(updates(y), x);
  s.count(y.size());
}

template <class T>
void multiply_impl(stream& s, std::span<T> y, std::span<T const> x) {
  s.touch(updates(y), x);
  s.count(y.size());
}

template <class T>
void scale_impl(stream& s, std::span<T> y, accumulate_t<T>) {
  s.touch(updates(y));
  s.count(y.size());
}

template <class T, class U>
void axpby_impl(stream& s, std::span<T> y, std::span<U const> x, double, double) {
  s.touch(updates(y), x);
  s.count(3 * y.size());
}

template <class T>
void normalise_impl(stream& s, std::span<T> y, double const*, double) {
  s.touch(updates(y));
  s.count(y.size());
}

template <class To, class From>
void cast_impl(stream& s, std::span<To> y, std::span<From const> x) {
  s.touch(y, x);
}

}  // namespace parallel::meta
