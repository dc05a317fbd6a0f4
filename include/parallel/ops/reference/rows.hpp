// Operations by row in plain loops.
#pragma once

#include <parallel/ops/reference/stream.hpp>
#include <parallel/ops/rows.hpp>

namespace parallel::reference {

template <class T>
void row_squared_norms_impl(stream&, std::span<double> out, std::span<T const> x,
                            ops::rows_place place) {
  for (index i = 0; i < std::ssize(x); ++i) {
    auto const value = static_cast<double>(x[static_cast<std::size_t>(i)]);
    out[static_cast<std::size_t>(place.row_of(i))] += value * value;
  }
}

template <class T>
void scale_rows_impl(stream&, std::span<T> x, std::span<accumulate_t<T> const> factors,
                     ops::rows_place place) {
  using A = accumulate_t<T>;
  for (index i = 0; i < std::ssize(x); ++i) {
    auto& element = x[static_cast<std::size_t>(i)];
    element = static_cast<T>(A(element) * factors[static_cast<std::size_t>(place.row_of(i))]);
  }
}

}  // namespace parallel::reference
