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
#include <parallel/ops/experts/load_shares.hpp>
#include <parallel/ops/experts/record_routing.hpp>
#include <parallel/ops/experts/route.hpp>
#include <parallel/ops/experts/router_logits.hpp>
#include <parallel/ops/host/blocks.hpp>
#include <parallel/ops/host/pointwise/elementwise.hpp>

namespace parallel::host {

namespace detail {

/// The rows, and the weights, whose products are computed together: their sums fill registers.
template <int Lanes>
inline constexpr int router_tile = Lanes / 4;

/// products[i][j] = the sum of rows[i][n] weights[j][n] in double, in the order of
/// ops::detail::router_product: a register, or several, has the eight sums of a product.
template <int Lanes, class T, int Tile = router_tile<Lanes>>
[[gnu::always_inline]] inline void router_products(T const* const (&rows)[Tile],
                                                   T const* const (&weights)[Tile], index width,
                                                   double (&products)[Tile][Tile]) {
  constexpr int L = Lanes / 2;  // doubles in one register
  constexpr int parts = 8 / L;
  using doubles = simd::pack<double, L>;
  constexpr auto tile_indices = std::make_integer_sequence<int, Tile>{};
  constexpr auto part_indices = std::make_integer_sequence<int, parts>{};
  doubles sums[Tile][Tile][parts];
  for (auto& row : sums)
    for (auto& product : row)
      for (auto& sum : product) sum = doubles(0.0);
  auto const load = [](T const* from, index left) __attribute__((always_inline)) {
    doubles out;
    out.v = __builtin_convertvector(simd::load_partial<L>(from, left).v, typename doubles::raw);
    return out;
  };
  auto const add = [&](index n, index left) __attribute__((always_inline)) {
    simd::unrolled(
        part_indices, [&](auto k) __attribute__((always_inline)) {
          doubles factors[Tile];
          simd::unrolled(
              tile_indices, [&](auto j) __attribute__((always_inline)) {
                factors[j] = load(weights[j] + n + k * L, left - k * L);
              });
          simd::unrolled(
              tile_indices, [&](auto i) __attribute__((always_inline)) {
                doubles const x = load(rows[i] + n + k * L, left - k * L);
                simd::unrolled(
                    tile_indices, [&](auto j) __attribute__((always_inline)) {
                      sums[i][j][k] += x * factors[j];
                    });
              });
        });
  };
  index n = 0;
  for (; n + 8 <= width; n += 8) add(n, 8);
  if (n < width) add(n, width - n);
  for (int i = 0; i < Tile; ++i)
    for (int j = 0; j < Tile; ++j) {
      for (int half = parts / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) sums[i][j][k] += sums[i][j][k + half];
      products[i][j] = simd::sum(sums[i][j][0]);
    }
}

/// The logits of rows [begin, end) of x.
template <int Lanes, class T>
[[gnu::always_inline]] inline void write_logits(float* logits, T const* x, T const* weights,
                                                index begin, index end, index experts,
                                                index width) {
  constexpr int tile_side = router_tile<Lanes>;
  for (index m = begin; m < end; m += tile_side)
    for (index e = 0; e < experts; e += tile_side) {
      T const* rows[tile_side];
      T const* columns[tile_side];
      for (int i = 0; i < tile_side; ++i) {  // the last ones again where there are fewer
        rows[i] = x + std::min(m + i, end - 1) * width;
        columns[i] = weights + std::min(e + i, experts - 1) * width;
      }
      double products[tile_side][tile_side];
      router_products<Lanes, T>(rows, columns, width, products);
      for (index i = 0; i < std::min<index>(tile_side, end - m); ++i)
        for (index j = 0; j < std::min<index>(tile_side, experts - e); ++j)
          logits[(m + i) * experts + e + j] = static_cast<float>(products[i][j]);
    }
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
      index const grain = (block_rows(width * experts) + 3) / 4 * 4;
      parallel_for(threads, a.x.extent(0), grain, [&](index begin, index end) {
        simd::dispatch([&](auto lanes) __attribute__((always_inline)) {
          detail::write_logits<lanes>(a.logits.data(), a.x.data(), a.weight.data(), begin, end,
                                      experts, width);
        });
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
