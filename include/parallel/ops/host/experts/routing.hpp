// The operations of routing on the host: logits in SIMD, in double and in the order of the
// reference, the others by the reference's loops, with a thread for some of the rows.
#pragma once

#include <cstring>
#include <utility>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/experts/choice_counts.hpp>
#include <parallel/ops/experts/expert_order.hpp>
#include <parallel/ops/experts/expert_rows.hpp>
#include <parallel/ops/experts/jitter.hpp>
#include <parallel/ops/experts/record_routing.hpp>
#include <parallel/ops/experts/route.hpp>
#include <parallel/ops/experts/router_logits.hpp>
#include <parallel/ops/host/blocks.hpp>

namespace parallel::host {

namespace detail {

/// The sum of x[n] w[n] in double, as ops::detail::router_product adds it.
template <int Lanes, class T>
[[gnu::always_inline]] inline double router_product(T const* x, T const* w, index width) {
  constexpr int L = Lanes / 2;  // doubles in one register
  using doubles = simd::pack<double, L>;
  constexpr int parts = 8 / L;
  constexpr auto part_indices = std::make_integer_sequence<int, parts>{};
  doubles sums[parts];
  simd::unrolled(
      part_indices, [&](auto k) __attribute__((always_inline)) { sums[k] = doubles(0.0); });
  auto const wide = [](auto const& numbers) __attribute__((always_inline)) {
    doubles out;
    out.v = __builtin_convertvector(numbers.v, typename doubles::raw);
    return out;
  };
  for (index i = 0; i < width; i += 8)
    simd::unrolled(
        part_indices, [&](auto k) __attribute__((always_inline)) {
          index const begin = i + k * L;
          index const left = std::max<index>(width - begin, 0);
          sums[k] += wide(simd::load_partial<L>(x + begin, left)) *
                     wide(simd::load_partial<L>(w + begin, left));
        });
  for (int half = parts / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) sums[k] += sums[k + half];
  return simd::sum(sums[0]);
}

/// Enqueues an operation whose parts are rows, with `columns` elements of work each.
template <class Arguments>
void run_rows(stream& s, Arguments const& a, index columns) {
  s.enqueue({a.name}, [=, threads = s.threads()] {
    parallel_for(threads, a.parts(), block_rows(columns), [&](index begin, index end) {
      for (index row = begin; row < end; ++row) a.compute(row);
    });
  });
}

}  // namespace detail

template <class T>
void run_operation(stream& s, ops::router_logits_arguments<T> const& a) {
  index const width = a.x.extent(1), experts = a.logits.extent(1);
  if constexpr (simd_element<T>)
    s.enqueue({a.name}, [=, threads = s.threads()] {
      for_rows(
          threads, a.x.extent(0), width * experts,
          [ =, to = a.logits.data(), from = a.x.data(), weights = a.weight.data() ](
              auto lanes, index m) __attribute__((always_inline)) {
            for (index e = 0; e < experts; ++e)
              to[m * experts + e] = static_cast<float>(
                  detail::router_product<lanes>(from + m * width, weights + e * width, width));
          });
    });
  else
    detail::run_rows(s, a, width * experts);
}

template <class T>
void run_operation(stream& s, ops::jitter_arguments<T> const& a) {
  detail::run_rows(s, a, ops::detail::run_elements * 8);
}

template <class A>
void run_operation(stream& s, ops::route_arguments<A> const& a) {
  detail::run_rows(s, a, a.logits.extent(1) * 64);
}

template <class T, class A>
void run_operation(stream& s, ops::route_backward_arguments<T, A> const& a) {
  detail::run_rows(s, a, a.logits.extent(1) * 16);
}

template <class A>
void run_operation(stream& s, ops::choice_counts_arguments<A> const& a) {
  s.enqueue({a.name}, [=] { ops::compute(a); });
}

template <class A>
void run_operation(stream& s, ops::record_routing_arguments<A> const& a) {
  s.enqueue({a.name}, [=] { a.compute(); });
}

inline void run_operation(stream& s, ops::expert_order_arguments const& a) {
  s.enqueue({a.name}, [=] { a.compute(); });
}

template <class T>
void run_operation(stream& s, ops::scatter_rows_arguments<T> const& a) {
  index const bytes = a.x.extent(1) * index{sizeof(T)};
  s.enqueue({a.name}, [=, threads = s.threads()] {
    parallel_for(threads, a.parts(), block_rows(a.x.extent(1)), [&](index begin, index end) {
      for (index m = begin; m < end; ++m)
        for (index c = 0; c < a.places.extent(1); ++c)
          if (index const place = a.places(m, c); place >= 0)
            std::memcpy(static_cast<void*>(a.y.data() + place * a.x.extent(1)),
                        a.x.data() + m * a.x.extent(1), static_cast<std::size_t>(bytes));
    });
  });
}

template <class T>
void run_operation(stream& s, ops::combine_rows_arguments<T> const& a) {
  index const width = a.y.extent(1), choices = a.places.extent(1);
  if constexpr (simd_element<T>)
    s.enqueue({a.name}, [=, threads = s.threads()] {
      T const* const addends = a.addend.empty() ? nullptr : a.addend.data();
      float const* const factors = a.weights.empty() ? nullptr : a.weights.data();
      for_rows(
          threads, a.y.extent(0), width * choices,
          [ =, to = a.y.data(), from = a.x.data(), places = a.places.data() ](auto lanes, index m)
              __attribute__((always_inline)) {
                constexpr int L = lanes;
                for (index n = 0; n < width; n += L) {
                  simd::pack<float, L> total(0.0F);
                  if (addends != nullptr)
                    total = simd::load_partial<L>(addends + m * width + n, width - n);
                  for (index c = 0; c < choices; ++c) {
                    index const place = places[m * choices + c];
                    if (place < 0) continue;
                    auto const row = simd::load_partial<L>(from + place * width + n, width - n);
                    if (factors == nullptr)
                      total += row;
                    else
                      total += broadcast<L>(factors[m * choices + c]) * row;
                  }
                  simd::store_partial(to + m * width + n, total, width - n);
                }
              });
    });
  else
    detail::run_rows(s, a, width * choices);
}

template <class T>
void run_operation(stream& s, ops::combine_rows_backward_arguments<T> const& a) {
  index const width = a.dy.extent(1), choices = a.places.extent(1);
  if constexpr (simd_element<T>)
    s.enqueue({a.name}, [=, threads = s.threads()] {
      for_rows(
          threads, a.dy.extent(0), width * choices, [
            =, to = a.dx.data(), gradients = a.dweights.data(), from = a.dy.data(),
            rows = a.x.data(), places = a.places.data(), factors = a.weights.data()
          ](auto lanes, index m) __attribute__((always_inline)) {
            constexpr int L = lanes;
            for (index c = 0; c < choices; ++c) {
              index const place = places[m * choices + c];
              gradients[m * choices + c] = 0.0F;
              if (place < 0) continue;
              T const* const dy = from + m * width;
              T const* const x = rows + place * width;
              auto const product = [=](index n, index left) __attribute__((always_inline)) {
                return simd::load_partial<L>(dy + n, left) * simd::load_partial<L>(x + n, left);
              };
              gradients[m * choices + c] = sum_packs<L>(width, product);
              auto const factor = broadcast<L>(factors[m * choices + c]);
              for (index n = 0; n < width; n += L)
                simd::store_partial(to + place * width + n,
                                    factor * simd::load_partial<L>(dy + n, width - n), width - n);
            }
          });
    });
  else
    detail::run_rows(s, a, width * choices);
}

}  // namespace parallel::host
