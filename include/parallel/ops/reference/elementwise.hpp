// Element-wise operations in plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/reference/stream.hpp>

namespace parallel::reference {

template <class T>
void fill_impl(stream&, std::span<T> y, T value) {
  for (T& element : y) element = value;
}

template <class T>
void copy_impl(stream&, std::span<T> y, std::span<T const> x) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i];
}

template <class T>
void copy_impl(stream&, ops::rows_view<T> y, ops::rows_view<T const> x) {
  for (index r = 0; r < y.rows; ++r)
    for (index i = 0; i < y.columns; ++i) y.row(r)[i] = x.row(r)[i];
}

template <class T>
void add_impl(stream&, std::span<T> y, std::span<T const> x) {
  using A = accumulate_t<T>;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<T>(A(y[i]) + A(x[i]));
}

template <class T>
void multiply_impl(stream&, std::span<T> y, std::span<T const> x) {
  using A = accumulate_t<T>;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<T>(A(y[i]) * A(x[i]));
}

template <class T>
void scale_impl(stream&, std::span<T> y, accumulate_t<T> factor) {
  using A = accumulate_t<T>;
  for (T& element : y) element = static_cast<T>(A(element) * factor);
}

template <class T, class U>
void axpby_impl(stream&, std::span<T> y, std::span<U const> x, double alpha, double beta) {
  using S = ops::detail::sum_of_t<T, U>;
  auto const a = static_cast<S>(alpha), b = static_cast<S>(beta);
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = static_cast<T>(static_cast<accumulate_t<T>>(a * S(x[i]) + b * S(y[i])));
}

template <class T>
void normalise_impl(stream&, std::span<T> y, double const* squared_norm, double least) {
  using A = accumulate_t<T>;
  auto const round = [](double x) { return A(static_cast<T>(static_cast<A>(x))); };
  A const divisor = std::max(round(std::sqrt(*squared_norm)), round(least));
  for (T& element : y) element = static_cast<T>(A(element) / divisor);
}

template <class To, class From>
void cast_impl(stream&, std::span<To> y, std::span<From const> x) {
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = static_cast<To>(static_cast<accumulate_t<To>>(accumulate_t<From>(x[i])));
}

}  // namespace parallel::reference
