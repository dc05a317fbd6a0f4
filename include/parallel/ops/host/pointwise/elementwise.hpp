// Element-wise operations on the host: SIMD for float and bf16, memcpy for copies, and the
// reference loops for other types.
#pragma once

#include <cstring>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel::host {

/// Tag for argument-dependent lookup of `simd_form(in_packs{}, f)`, which returns the function of
/// an operation as one of packs: called with the number of lanes and a pack of each input.
struct in_packs {};

/// The function of an operation, as one of packs.
template <class T>
[[nodiscard]] auto simd_form(in_packs, ops::constant<T> const& f) {
  return [number = float(f.value)](auto lanes) __attribute__((always_inline)) {
    return broadcast<lanes>(number);
  };
}

/// The form of a function that has none for packs: it runs in plain loops.
struct no_packs {};
template <class F>
[[nodiscard]] no_packs simd_form(in_packs, F const&) {
  return {};
}

[[nodiscard]] inline auto simd_form(in_packs, ops::addition) {
  return [](auto, auto const& y, auto const& x) __attribute__((always_inline)) { return y + x; };
}

[[nodiscard]] inline auto simd_form(in_packs, ops::multiplication) {
  return [](auto, auto const& y, auto const& x) __attribute__((always_inline)) { return y * x; };
}

[[nodiscard]] inline auto simd_form(in_packs, ops::scaling<float> f) {
  return [f](auto lanes, auto const& y) __attribute__((always_inline)) {
    return y * broadcast<lanes>(f.factor);
  };
}

[[nodiscard]] inline auto simd_form(in_packs, ops::linear_combination<float> f) {
  return [f](auto lanes, auto const& y, auto const& x) __attribute__((always_inline)) {
    return x * broadcast<lanes>(f.alpha) + y * broadcast<lanes>(f.beta);
  };
}

[[nodiscard]] inline auto simd_form(in_packs, ops::conversion<float>) {
  return [](auto, auto const& x) __attribute__((always_inline)) { return x; };
}

namespace detail {

/// Runs a pointwise operation by its form for packs, or by plain loops where a type has no packs.
template <class Form, class F, class T, class... X>
void run_packs(stream& s, Form const& form, ops::pointwise_arguments<F, T, X...> const& a) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    if constexpr (!std::is_same_v<Form, no_packs> && simd_element<T> && (simd_element<X> && ...)) {
      auto const assign = [&](auto... x) {
        for_packs(
            threads, std::ssize(a.y),
            [ form, to = a.y.data(), ... from = x.data() ](auto lanes, index i, index left)
                __attribute__((always_inline)) {
                  if constexpr (F::reads_result)
                    simd::store_partial(to + i,
                                        form(lanes, simd::load_partial<lanes>(to + i, left),
                                             simd::load_partial<lanes>(from + i, left)...),
                                        left);
                  else
                    simd::store_partial(
                        to + i, form(lanes, simd::load_partial<lanes>(from + i, left)...), left);
                });
      };
      std::apply(assign, a.inputs);
    } else {
      parallel_for(threads, a.parts(), block_elements / ops::detail::run_elements,
                   [&](index begin, index end) {
                     for (index part = begin; part < end; ++part) a.compute(part);
                   });
    }
  });
}

}  // namespace detail

template <class F, class T, class... X>
void run_operation(stream& s, ops::pointwise_arguments<F, T, X...> const& a) {
  detail::run_packs(s, simd_form(in_packs{}, a.function), a);
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

}  // namespace parallel::host
