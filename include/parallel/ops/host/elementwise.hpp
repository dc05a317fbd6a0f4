// Element-wise operations on the host: SIMD for float and bf16, copies of bytes, and the reference
// loops for the rest.
#pragma once

#include <cstring>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/reference/elementwise.hpp>

namespace parallel::host {

template <class T>
void fill_impl(stream& s, std::span<T> y, T value) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_packs(
          threads, std::ssize(y),
          [ =, to = y.data(), number = float(value) ](auto lanes, index i, index left)
              __attribute__((always_inline)) {
                simd::store_partial(to + i, broadcast<lanes>(number), left);
              });
    } else {
      reference::stream here;
      ops::fill(here, y, value);
    }
  });
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
void add_impl(stream& s, std::span<T> y, std::span<T const> x) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_packs(
          threads, std::ssize(y),
          [ to = y.data(), from = x.data() ](auto lanes, index i, index left)
              __attribute__((always_inline)) {
                auto const sum = simd::load_partial<lanes>(to + i, left) +
                                 simd::load_partial<lanes>(from + i, left);
                simd::store_partial(to + i, sum, left);
              });
    } else {
      reference::stream here;
      ops::add(here, y, x);
    }
  });
}

template <class T>
void multiply_impl(stream& s, std::span<T> y, std::span<T const> x) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_packs(
          threads, std::ssize(y),
          [ to = y.data(), from = x.data() ](auto lanes, index i, index left)
              __attribute__((always_inline)) {
                auto const product = simd::load_partial<lanes>(to + i, left) *
                                     simd::load_partial<lanes>(from + i, left);
                simd::store_partial(to + i, product, left);
              });
    } else {
      reference::stream here;
      ops::multiply(here, y, x);
    }
  });
}

template <class T>
void scale_impl(stream& s, std::span<T> y, accumulate_t<T> factor) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<T>) {
      for_packs(
          threads, std::ssize(y),
          [ =, to = y.data() ](auto lanes, index i, index left) __attribute__((always_inline)) {
            auto const product = simd::load_partial<lanes>(to + i, left) * broadcast<lanes>(factor);
            simd::store_partial(to + i, product, left);
          });
    } else {
      reference::stream here;
      ops::scale(here, y, factor);
    }
  });
}

template <class To, class From>
void cast_impl(stream& s, std::span<To> y, std::span<From const> x) {
  s.enqueue([=, threads = s.threads()] {
    if constexpr (simd_element<To> && simd_element<From>) {
      for_packs(
          threads, std::ssize(y),
          [ to = y.data(), from = x.data() ](auto lanes, index i, index left)
              __attribute__((always_inline)) {
                simd::store_partial(to + i, simd::load_partial<lanes>(from + i, left), left);
              });
    } else {
      reference::stream here;
      ops::cast(here, y, x);
    }
  });
}

}  // namespace parallel::host
