// Element-wise operations on the meta device: fill, copy and cast compute nothing, the others do
// one operation an element.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/elementwise.hpp>

namespace parallel::meta {

template <class T>
void fill_impl(stream&, std::span<T>, T) {}

template <class T>
void copy_impl(stream&, std::span<T>, std::span<T const>) {}

template <class T>
void copy_impl(stream&, ops::rows_view<T>, ops::rows_view<T const>) {}

template <class T>
void add_impl(stream& s, std::span<T> y, std::span<T const>) {
  s.count(y.size());
}

template <class T>
void multiply_impl(stream& s, std::span<T> y, std::span<T const>) {
  s.count(y.size());
}

template <class T>
void scale_impl(stream& s, std::span<T> y, accumulate_t<T>) {
  s.count(y.size());
}

template <class To, class From>
void cast_impl(stream&, std::span<To>, std::span<From const>) {}

}  // namespace parallel::meta
