// The gradients of a norm's weight and bias, dweight += sum over rows of dy x^ and dbias += sum
// over rows of dy, as two kernels: blocks of rows store their sums in scratch memory, then the sums
// of each column are added in double. The division into blocks and the order of every sum depend on
// the shape alone, so the result has the same bits in each run.
#pragma once

#include <cstddef>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/cuda/row_groups.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel::cuda::kernels {

/// The division of rows and columns among blocks: `tiles` of 32 packs of columns each, and `chunks`
/// of rows. About 512 blocks keep a large device busy; chunks shorter than 32 rows are not worth a
/// block.
struct weight_gradient_division {
  std::size_t tiles;
  std::size_t chunks;

  template <class T>
  [[nodiscard]] static weight_gradient_division for_rows(ops::rows_view<T const> x) {
    auto const up = [](index a, index b) { return static_cast<std::size_t>((a + b - 1) / b); };
    auto const tiles = up(x.columns, index{warp_size * pack_size<T>});
    if (tiles == 0 || x.rows == 0) return {tiles, 0};
    auto const chunks = tiles >= 512 ? 1 : 512 / tiles;
    return {tiles, std::min(chunks, up(x.rows, 32))};
  }
  /// Sums in scratch memory: [chunks][2][columns], those of the weight first.
  [[nodiscard]] std::size_t sums(index columns) const {
    return 2 * chunks * static_cast<std::size_t>(columns);
  }
};

/// tiles * chunks blocks; warp w of W warps takes rows w, w + W, ... of its chunk, a lane 16 bytes
/// of columns. WithWeight: computes the weight's sums too, for which x is read. Shared memory: 32
/// packs of accumulate_t<T> per warp.
template <class T, bool WithWeight>
struct weight_gradient_of_chunks {
  using A = accumulate_t<T>;

  A* sums;
  ops::rows_view<T const> dy;
  ops::rows_view<T const> x;
  A const* mean;  // null: 0
  A const* rstd;
  bool with_bias;
  unsigned tiles;
  unsigned chunks;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    constexpr unsigned pack_elements = pack_size<T>;
    constexpr unsigned ahead = WithWeight ? 2 : 4;  // rows that are loaded before they are used
    auto const columns = static_cast<unsigned>(x.columns);
    unsigned const chunk = b.block() / tiles;
    unsigned const tile = b.block() % tiles;
    unsigned const warp = b.thread() / warp_size;
    unsigned const warps = b.threads() / warp_size;
    unsigned const p = tile * warp_size + b.thread() % warp_size;
    index const begin = x.rows * chunk / chunks;
    index const end = x.rows * (chunk + 1) / chunks;

    A products[WithWeight ? pack_elements : 1] = {};
    A plain[pack_elements] = {};
    if (p * pack_elements < columns)
      for (index first = begin + warp; first < end; first += ahead * warps) {
        typename row_groups<T>::group_type slopes[ahead] = {}, values[WithWeight ? ahead : 1] = {};
        unrolled<ahead>([&](unsigned k) {
          index const m = first + k * warps;
          if (m >= end) return;
          slopes[k] = row_groups<T const>(dy.data + m * dy.row_stride, columns).load(p);
          if constexpr (WithWeight)
            values[k] = row_groups<T const>(x.data + m * x.row_stride, columns).load(p);
        });
        unrolled<ahead>([&](unsigned k) {
          index const m = first + k * warps;
          if (m >= end) return;
          if constexpr (WithWeight) {
            A const center = mean == nullptr ? A(0) : mean[m];
            A const factor = rstd[m];
            unrolled<pack_elements>([&](unsigned i) {
              products[i] += A(slopes[k].value[i]) * ((A(values[k].value[i]) - center) * factor);
            });
          }
          unrolled<pack_elements>([&](unsigned i) { plain[i] += A(slopes[k].value[i]); });
        });
      }
    if constexpr (WithWeight) {
      join_warps(b, products, sums + 2 * std::size_t{chunk} * columns, tile);
      if (with_bias) b.sync();  // the shared memory may be overwritten
    }
    if (with_bias) join_warps(b, plain, sums + (2 * std::size_t{chunk} + 1) * columns, tile);
  }

 private:
  template <class Block>
  PARALLELLM_DEVICE void join_warps(Block& b, A const* warp_values, A* to, unsigned tile) const {
    constexpr unsigned pack_elements = pack_size<T>;
    constexpr unsigned width = warp_size * pack_elements;
    A* const shared = b.template shared<A>();
    unrolled<pack_elements>(
        [&](unsigned i) { shared[b.thread() * pack_elements + i] = warp_values[i]; });
    b.sync();
    for (unsigned c = b.thread(); c < width; c += b.threads()) {
      if (tile * width + c >= static_cast<unsigned>(x.columns)) continue;
      A total = shared[c];
      for (unsigned w = 1; w < b.threads() / warp_size; ++w) total += shared[w * width + c];
      to[tile * width + c] = total;
    }
  }
};

/// One block per 32 of the 2 * columns sums. Shared memory: one sum_t<A> per thread.
template <class A>
struct weight_gradient_of_all {
  using wide = ops::sum_t<A>;

  A* dweight;  // null: not needed
  A* dbias;    // null: not needed
  A const* sums;
  unsigned columns;
  unsigned chunks;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto* const shared = b.template shared<wide>();
    unsigned const lane = b.thread() % warp_size;
    unsigned const warps = b.threads() / warp_size;
    std::size_t const sum_index = std::size_t{b.block()} * warp_size + lane;
    A* const gradient = sum_index < columns ? dweight : dbias;
    bool const has_sum = sum_index < std::size_t{2} * columns && gradient != nullptr;
    wide total = 0;
    if (has_sum)
      for (unsigned c = b.thread() / warp_size; c < chunks; c += warps)
        total += wide(sums[2 * std::size_t{c} * columns + sum_index]);
    shared[b.thread()] = total;
    b.sync();
    if (!has_sum || b.thread() >= warp_size) return;
    for (unsigned w = 1; w < warps; ++w) total += shared[w * warp_size + lane];
    A& out = gradient[sum_index < columns ? sum_index : sum_index - columns];
    out = static_cast<A>(wide(out) + total);
  }
};

}  // namespace parallel::cuda::kernels
