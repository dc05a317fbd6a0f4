// Element-wise operations on cuda::stream, for plain C++ compilers: declarations only.
//
// Whoever includes only this file links with the instantiations for float, bf16, double and
// std::uint64_t (elementwise.cuh, compiled by nvcc somewhere in the program). All memory is of the
// stream's device; each returns when enqueued.
#pragma once

#include <span>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/issuing_stream.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::cuda {

/// y[i] = value.
template <class T>
void fill_impl(stream& s, std::span<T> y, T value);

/// y[i] = x[i].
template <class T>
void copy_impl(stream& s, std::span<T> y, std::span<T const> x);

/// y[r, i] = x[r, i] for rows that may lie apart.
template <class T>
void copy_impl(stream& s, ops::rows_view<T> y, ops::rows_view<T const> x);

/// y[i] += x[i].
template <class T>
void add_impl(stream& s, std::span<T> y, std::span<T const> x);

/// y[i] *= x[i].
template <class T>
void multiply_impl(stream& s, std::span<T> y, std::span<T const> x);

/// y[i] *= factor.
template <class T>
void scale_impl(stream& s, std::span<T> y, accumulate_t<T> factor);

/// y[i] = alpha x[i] + beta y[i].
template <class T, class U>
void axpby_impl(stream& s, std::span<T> y, std::span<U const> x, double alpha, double beta);

/// y[i] /= max(sqrt(*squared_norm), least).
template <class T>
void normalise_impl(stream& s, std::span<T> y, double const* squared_norm, double least);

/// y[i] = x[i] in another element type.
template <class To, class From>
void cast_impl(stream& s, std::span<To> y, std::span<From const> x);

/// The same on the stream of exchanges, for what is done with what arrives.
template <class T>
void fill_impl(issuing_stream& s, std::span<T> y, T value) {
  s.on_device([=](stream& on) { fill_impl(on, y, value); });
}
template <class T>
void copy_impl(issuing_stream& s, std::span<T> y, std::span<T const> x) {
  s.on_device([=](stream& on) { copy_impl(on, y, x); });
}
template <class T>
void add_impl(issuing_stream& s, std::span<T> y, std::span<T const> x) {
  s.on_device([=](stream& on) { add_impl(on, y, x); });
}

}  // namespace parallel::cuda
