// Element-wise operations on the host: SIMD for float and bf16, memcpy for copies, and the
// reference loops for other types.
#pragma once

#include <cstring>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel::host {

namespace detail {

/// Stores y[i...] = value(lanes, y, i, left), a pack of elements from i on, if To and From have
/// SIMD kernels; else runs the plain loops.
template <class From, class Arguments, class To, class Value>
void assign(stream& s, Arguments const& a, std::span<To> y, Value value) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (simd_element<To> && simd_element<From>) {
      for_packs(
          threads, std::ssize(y),
          [ =, to = y.data() ](auto lanes, index i, index left) __attribute__((always_inline)) {
            simd::store_partial(to + i, value(lanes, to, i, left), left);
          });
    } else {
      ops::compute(a);
    }
  });
}

}  // namespace detail

template <class T>
void run_operation(stream& s, ops::fill_arguments<T> const& a) {
  detail::assign<T>(
      s, a, a.y,
      [number = float(a.value)](auto lanes, T const*, index, index)
          __attribute__((always_inline)) { return broadcast<lanes>(number); });
}

template <class T>
void run_operation(stream& s, ops::copy_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if (a.y.data() == a.x.data()) return;
    parallel_for(threads, std::ssize(a.y), block_elements, [&](index begin, index end) {
      std::memcpy(static_cast<void*>(a.y.data() + begin), a.x.data() + begin,
                  static_cast<std::size_t>(end - begin) * sizeof(T));
    });
  });
}

template <class T>
void run_operation(stream& s, ops::copy_rows_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    parallel_for(threads, a.y.rows, block_rows(a.y.columns), [&](index begin, index end) {
      for (index r = begin; r < end; ++r)
        std::memcpy(static_cast<void*>(a.y.row(r)), a.x.row(r),
                    static_cast<std::size_t>(a.y.columns) * sizeof(T));
    });
  });
}

template <class T>
void run_operation(stream& s, ops::add_arguments<T> const& a) {
  detail::assign<T>(
      s, a, a.y,
      [from = a.x.data()](auto lanes, T const* to, index i,
                          index left) __attribute__((always_inline)) {
        return simd::load_partial<lanes>(to + i, left) + simd::load_partial<lanes>(from + i, left);
      });
}

template <class T>
void run_operation(stream& s, ops::multiply_arguments<T> const& a) {
  detail::assign<T>(
      s, a, a.y,
      [from = a.x.data()](auto lanes, T const* to, index i,
                          index left) __attribute__((always_inline)) {
        return simd::load_partial<lanes>(to + i, left) * simd::load_partial<lanes>(from + i, left);
      });
}

template <class T>
void run_operation(stream& s, ops::scale_arguments<T> const& a) {
  detail::assign<T>(
      s, a, a.y,
      [factor = a.factor](auto lanes, T const* to, index i, index left)
          __attribute__((always_inline)) {
            return simd::load_partial<lanes>(to + i, left) * broadcast<lanes>(factor);
          });
}

template <class T, class U>
void run_operation(stream& s, ops::axpby_arguments<T, U> const& a) {
  detail::assign<U>(
      s, a, a.y,
      [ from = a.x.data(), alpha = static_cast<float>(a.alpha), beta = static_cast<float>(a.beta) ](
          auto lanes, T const* to, index i, index left) __attribute__((always_inline)) {
        return simd::load_partial<lanes>(from + i, left) * broadcast<lanes>(alpha) +
               simd::load_partial<lanes>(to + i, left) * broadcast<lanes>(beta);
      });
}

template <class T>
void run_operation(stream& s, ops::normalise_arguments<T> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    parallel_for(threads, std::ssize(a.y), block_elements, [&](index begin, index end) {
      auto part = a;
      part.y = a.y.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
      ops::compute(part);
    });
  });
}

template <class To, class From>
void run_operation(stream& s, ops::cast_arguments<To, From> const& a) {
  detail::assign<From>(
      s, a, a.y,
      [from = a.x.data()](auto lanes, To const*, index i, index left)
          __attribute__((always_inline)) { return simd::load_partial<lanes>(from + i, left); });
}

}  // namespace parallel::host
