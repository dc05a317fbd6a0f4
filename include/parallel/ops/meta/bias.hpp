// add_bias on the meta device: one addition an element, two with an addend; backwards one.
#pragma once

#include <parallel/device/meta/device.hpp>
#include <parallel/ops/bias.hpp>

namespace parallel::meta {

template <class T>
void add_bias_impl(stream& s, matrix_view<T> y, vector_view<T const> bias,
                   matrix_view<T const> addend) {
  s.touch(updates(y), bias, addend);
  s.count(static_cast<std::uint64_t>(y.size() + addend.size()));
}

template <class T>
void add_bias_backward_impl(stream& s, vector_view<accumulate_t<T>> dbias,
                            matrix_view<T const> dy) {
  s.touch(updates(dbias), dy);
  s.count(static_cast<std::uint64_t>(dy.size()));
}

}  // namespace parallel::meta
