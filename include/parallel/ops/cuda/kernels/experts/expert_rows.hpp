// Rows on their way to experts and back, as kernels: 16 bytes of a row at once. Places are device
// memory. Cost: memory bandwidth, if rows are wider than a warp.
#pragma once

#include <cstdint>

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/cuda/elements.hpp>
#include <parallel/ops/experts/expert_rows.hpp>

namespace parallel::cuda::kernels {

/// y[places[m,c],:] = x[m,:].
template <class T>
struct scatter_rows {
  T* y;
  T const* x;
  std::int32_t const* places;
  index rows, columns, choices;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    constexpr unsigned N = pack_size<T>;
    bool const aligned = groupable_rows<N>(y, columns, columns) && groupable<N>(x);
    for_each_in_rows<N>(b, rows, columns, aligned, [this]<unsigned n>(index m, index c) {
      auto const values = load_group<n>(x + m * columns + c);
      for (index k = m * choices; k < (m + 1) * choices; ++k)
        if (index const place = places[k]; place >= 0) store_group(y + place * columns + c, values);
    });
  }
};

/// y[m,:] = addend[m,:] + the sum of weights[m,c] x[places[m,c],:], in the order of c.
template <class T>
struct combine_rows {
  using A = accumulate_t<T>;

  T* y;
  T const* x;
  std::int32_t const* places;
  A const* weights;  // null: 1
  T const* addend;   // null: none
  index rows, columns, choices;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    constexpr unsigned N = pack_size<T>;
    bool const aligned = groupable_rows<N>(y, columns, columns) && groupable<N>(x, addend);
    for_each_in_rows<N>(b, rows, columns, aligned, [this]<unsigned n>(index m, index c) {
      group<A, n> total{};
      if (addend != nullptr) add_to(total, load_group<n>(addend + m * columns + c));
      for (index k = m * choices; k < (m + 1) * choices; ++k) {
        index const place = places[k];
        if (place < 0) continue;
        auto const values = load_group<n>(x + place * columns + c);
        A const weight = weights == nullptr ? A(1) : weights[k];
        for (unsigned i = 0; i < n; ++i) total.value[i] += weight * A(values.value[i]);
      }
      group<T, n> rounded;
      for (unsigned i = 0; i < n; ++i) rounded.value[i] = static_cast<T>(total.value[i]);
      store_group(y + m * columns + c, rounded);
    });
  }
};

/// dx[places[m,c],:] = weights[m,c] dy[m,:] and dweights[m,c] = dy[m,:] · x[places[m,c],:]: a warp
/// for each choice, whose sum has an order that depends on the width alone. A thread reads an
/// element of x before it writes that of dx.
template <class T>
struct combine_rows_backward {
  using A = accumulate_t<T>;

  T* dx;
  A* dweights;
  T const* dy;
  T const* x;
  std::int32_t const* places;
  A const* weights;
  index rows, columns, choices;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    constexpr unsigned N = pack_size<T>;
    bool const aligned = groupable_rows<N>(dy, columns, columns) && groupable<N>(x, dx);
    auto const warps = static_cast<index>(b.threads() / warp_size);
    for (index k =
             static_cast<index>(b.block()) * warps + static_cast<index>(b.thread() / warp_size);
         k < rows * choices; k += static_cast<index>(b.blocks()) * warps) {
      A product(0);
      if (index const place = places[k]; place >= 0) {
        index const to = place * columns, from = k / choices * columns;
        if (aligned)
          product = pass<N>(b, to, from, weights[k]);
        else
          product = pass<1>(b, to, from, weights[k]);
      }
      product = combine_warp(b, product, plus{});
      if (b.thread() % warp_size == 0) dweights[k] = product;
    }
  }

 private:
  /// Writes a row of dx, and returns this thread's part of the product: it adds the same elements
  /// in the same order at any alignment.
  template <unsigned n, class Block>
  [[nodiscard]] PARALLELLM_DEVICE A pass(Block const& b, index to, index from, A weight) const {
    constexpr unsigned N = pack_size<T>;
    A product(0);
    for (index first = static_cast<index>(b.thread() % warp_size * N); first < columns;
         first += static_cast<index>(warp_size * N))
      for (index c = first; c < first + N && c < columns; c += n) {
        auto const gradients = load_group<n>(dy + from + c);
        auto const values = load_group<n>(x + to + c);
        group<T, n> results;
        for (unsigned i = 0; i < n; ++i) {
          product += A(gradients.value[i]) * A(values.value[i]);
          results.value[i] = static_cast<T>(weight * A(gradients.value[i]));
        }
        store_group(dx + to + c, results);
      }
    return product;
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::scatter_rows_arguments<T> const& a) {
  index const rows = a.x.extent(0), columns = a.x.extent(1);
  return grid{blocks_for(threads_in_rows<pack_size<T>>(rows, columns)),
              kernels::scatter_rows<T>{a.y.data(), a.x.data(), a.places.data(), rows, columns,
                                       a.places.extent(1)}};
}

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::combine_rows_arguments<T> const& a) {
  index const rows = a.y.extent(0), columns = a.y.extent(1);
  return grid{blocks_for(threads_in_rows<pack_size<T>>(rows, columns)),
              kernels::combine_rows<T>{a.y.data(), a.x.data(), a.places.data(),
                                       a.weights.empty() ? nullptr : a.weights.data(),
                                       a.addend.empty() ? nullptr : a.addend.data(), rows, columns,
                                       a.places.extent(1)}};
}

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::combine_rows_backward_arguments<T> const& a) {
  return grid{blocks_for(static_cast<std::size_t>(a.places.size()) * warp_size),
              kernels::combine_rows_backward<T>{
                  a.dx.data(), a.dweights.data(), a.dy.data(), a.x.data(), a.places.data(),
                  a.weights.data(), a.dy.extent(0), a.dy.extent(1), a.places.extent(1)}};
}

}  // namespace parallel::cuda
