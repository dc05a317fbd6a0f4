// Operations by row on the meta device: two operations an element, and one.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/rows.hpp>

namespace parallel::meta {

template <class T>
void row_squared_norms_impl(stream& s, std::span<double>, std::span<T const> x, ops::rows_place) {
  s.count(2 * x.size());
}

template <class T>
void scale_rows_impl(stream& s, std::span<T> x, std::span<accumulate_t<T> const>, ops::rows_place) {
  s.count(x.size());
}

}  // namespace parallel::meta
