// Element-wise operations on the host: SIMD for float and bf16, copies of bytes, and the reference
// loops for the rest.
#pragma once

#include <cstring>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/reference/elementwise.hpp>

namespace parallel::host {

namespace detail {

/// y[i] = value(lanes, y, i, left), a pack of elements from i on, when To and From have SIMD
/// kernels; else what `plain(reference stream)` does.
template <class From, class To, class Value, class Plain>
void assign(stream& s, std::span<To> y, Value value, Plain plain) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<To> && simd_element<From>) {
      for_packs(
          threads, std::ssize(y),
          [ =, to = y.data() ](auto lanes, index i, index left) __attribute__((always_inline)) {
            simd::store_partial(to + i, value(lanes, to, i, left), left);
          });
    } else {
      reference::stream here;
      plain(here);
    }
  });
}

}  // namespace detail

template <class T>
void fill_impl(stream& s, std::span<T> y, T value) {
  detail::assign<T>(
      s, y,
      [number = float(value)](auto lanes, T const*, index, index)
          __attribute__((always_inline)) { return broadcast<lanes>(number); },
      [=](auto& here) { ops::fill(here, y, value); });
}

template <class T>
void copy_impl(stream& s, std::span<T> y, std::span<T const> x) {
  s.enqueue([=, threads = s.threads()] {
    if (y.data() == x.data()) return;
    parallel_for(threads, std::ssize(y), block_elements, [&](index begin, index end) {
      std::memcpy(static_cast<void*>(y.data() + begin), x.data() + begin,
                  static_cast<std::size_t>(end - begin) * sizeof(T));
    });
  });
}

template <class T>
void copy_impl(stream& s, ops::rows_view<T> y, ops::rows_view<T const> x) {
  s.enqueue([=, threads = s.threads()] {
    parallel_for(threads, y.rows, block_rows(y.columns), [&](index begin, index end) {
      for (index r = begin; r < end; ++r)
        std::memcpy(static_cast<void*>(y.row(r)), x.row(r),
                    static_cast<std::size_t>(y.columns) * sizeof(T));
    });
  });
}

template <class T>
void add_impl(stream& s, std::span<T> y, std::span<T const> x) {
  detail::assign<T>(
      s, y,
      [from = x.data()](auto lanes, T const* to, index i,
                        index left) __attribute__((always_inline)) {
        return simd::load_partial<lanes>(to + i, left) + simd::load_partial<lanes>(from + i, left);
      },
      [=](auto& here) { ops::add(here, y, x); });
}

template <class T>
void multiply_impl(stream& s, std::span<T> y, std::span<T const> x) {
  detail::assign<T>(
      s, y,
      [from = x.data()](auto lanes, T const* to, index i,
                        index left) __attribute__((always_inline)) {
        return simd::load_partial<lanes>(to + i, left) * simd::load_partial<lanes>(from + i, left);
      },
      [=](auto& here) { ops::multiply(here, y, x); });
}

template <class T>
void scale_impl(stream& s, std::span<T> y, accumulate_t<T> factor) {
  detail::assign<T>(
      s, y,
      [factor](auto lanes, T const* to, index i, index left) __attribute__((always_inline)) {
        return simd::load_partial<lanes>(to + i, left) * broadcast<lanes>(factor);
      },
      [=](auto& here) { ops::scale(here, y, factor); });
}

template <class T, class U>
void axpby_impl(stream& s, std::span<T> y, std::span<U const> x, double alpha, double beta) {
  detail::assign<U>(
      s, y,
      [ from = x.data(), a = static_cast<float>(alpha), b = static_cast<float>(beta) ](
          auto lanes, T const* to, index i, index left) __attribute__((always_inline)) {
        return simd::load_partial<lanes>(from + i, left) * broadcast<lanes>(a) +
               simd::load_partial<lanes>(to + i, left) * broadcast<lanes>(b);
      },
      [=](auto& here) { ops::axpby(here, y, x, alpha, beta); });
}

template <class T>
void normalise_impl(stream& s, std::span<T> y, double const* squared_norm, double least) {
  s.enqueue([=, threads = s.threads()] {
    parallel_for(threads, std::ssize(y), block_elements, [&](index begin, index end) {
      reference::stream here;
      ops::normalise(
          here, y.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
          squared_norm, least);
    });
  });
}

template <class To, class From>
void cast_impl(stream& s, std::span<To> y, std::span<From const> x) {
  detail::assign<From>(
      s, y,
      [from = x.data()](auto lanes, To const*, index i, index left)
          __attribute__((always_inline)) { return simd::load_partial<lanes>(from + i, left); },
      [=](auto& here) { ops::cast(here, y, x); });
}

}  // namespace parallel::host
