// Loops of memory-bound host operations over threads and SIMD lanes: element-wise loops, sums over
// a row, sums of columns.
//
// The shape alone determines the blocks, and partial results are added in the order of the blocks,
// so nothing depends on the number of threads. Cost of sums of columns: at most 64 partial rows.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/host/detail/scratch.hpp>
#include <parallel/ops/host/parallel_for.hpp>
#include <parallel/ops/host/simd.hpp>

namespace parallel::host {

/// Element types with SIMD kernels; the others run the reference loops.
template <class T>
concept simd_element = std::is_same_v<T, float> || std::is_same_v<T, bf16>;

/// Elements that one thread processes at a time: some microseconds of work; a multiple of all
/// lanes.
inline constexpr index block_elements = 16384;

/// The number of rows of `columns` elements that make about one block.
[[nodiscard]] inline index block_rows(index columns) {
  return std::max<index>(1, block_elements / std::max<index>(1, columns));
}

/// Calls `step(lanes, i, left)` for i = 0, Lanes, 2 Lanes, ... below `count`; the step processes
/// min(Lanes, left) elements from i on.
template <class Step>
void for_packs(int threads, index count, Step const& step) {
  parallel_for(threads, count, block_elements, [&](index begin, index end) {
    simd::dispatch([&](auto lanes) __attribute__((always_inline)) {
      auto const local = step;  // a copy, so that its pointers stay in registers
      for (index i = begin; i < end; i += lanes) local(lanes, i, end - i);
    });
  });
}

/// Calls `row(lanes, m)` for every row m of a matrix with `columns` columns.
template <class Row>
void for_rows(int threads, index rows, index columns, Row const& row) {
  parallel_for(threads, rows, block_rows(columns), [&](index begin, index end) {
    simd::dispatch([&](auto lanes) __attribute__((always_inline)) {
      auto const local = row;
      for (index m = begin; m < end; ++m) local(lanes, m);
    });
  });
}

/// A pack whose lanes all hold a number that is known only at run time. This is not pack(value),
/// because g++ 12 writes such a vector lane by lane, and again for every use, if the enclosing
/// function lacks registers of that size (it is compiled for the kernel's instruction set only once
/// inlined there).
template <int Lanes, class T>
[[gnu::always_inline]] inline simd::pack<T, Lanes> broadcast(T value) {
  simd::pack<T, Lanes> first;
  first.v = typename simd::pack<T, Lanes>::raw{};
  first.v[0] = value;
  return [&]<int... Lane>(std::integer_sequence<int, Lane...>) __attribute__((always_inline)) {
    simd::pack<T, Lanes> out;
    out.v = __builtin_shufflevector(first.v, first.v, (0 * Lane)...);
    return out;
  }
  (std::make_integer_sequence<int, Lanes>{});
}

/// x, with zeros after its first `count` lanes.
template <int Lanes>
[[gnu::always_inline]] inline simd::pack<float, Lanes> first_lanes(
    simd::pack<float, Lanes> const& x, index count) {
  if (count >= Lanes) return x;
  float lanes[Lanes];
  simd::store(lanes, x);
  for (index i = std::max<index>(count, 0); i < Lanes; ++i) lanes[i] = 0.0F;
  return simd::load<Lanes>(lanes);
}

/// The sum of `term(i, left)` (a pack of terms i, i+1, ...) over `count` terms.
template <int Lanes, class Term>
[[gnu::always_inline]] inline float sum_packs(index count, Term const& term) {
  simd::pack<float, Lanes> even_sum(0.0F);
  simd::pack<float, Lanes> odd_sum(0.0F);  // two chains of additions hide their latency
  index i = 0;
  for (; i + 2 * Lanes <= count; i += 2 * Lanes) {
    even_sum += term(i, index{Lanes});
    odd_sum += term(i + Lanes, index{Lanes});
  }
  for (; i < count; i += Lanes) even_sum += first_lanes<Lanes>(term(i, count - i), count - i);
  return simd::sum(even_sum + odd_sum);
}

/// Sums of columns: `add(lanes, m, sums)` adds the contribution of row m to sums[0, columns). Rows
/// are divided into at most 64 blocks; each block has its own sums, which are then added in order.
/// The sums are in `memory`.
template <class Add>
[[nodiscard]] float const* sum_rows(workspace& memory, int threads, index rows, index columns,
                                    Add const& add) {
  index const grain = std::max<index>(64, (rows + 63) / 64);
  index const blocks = std::max<index>(1, (rows + grain - 1) / grain);
  float* const sums = detail::scratch_array<float>(memory, blocks * columns);
  std::fill_n(sums, blocks * columns, 0.0F);
  parallel_for(threads, rows, grain, [&](index begin, index end) {
    simd::dispatch([&](auto lanes) __attribute__((always_inline)) {
      auto const local = add;
      float* const block_sums = sums + begin / grain * columns;
      for (index m = begin; m < end; ++m) local(lanes, m, block_sums);
    });
  });
  for_packs(
      threads, columns, [=](auto lanes, index n, index left) __attribute__((always_inline)) {
        auto total = simd::load_partial<lanes>(sums + n, left);
        for (index block = 1; block < blocks; ++block)
          total += simd::load_partial<lanes>(sums + block * columns + n, left);
        simd::store_partial(sums + n, total, left);
      });
  return sums;
}

/// to[i] += from[i] for `count` elements, with vectors of `Lanes`.
template <int Lanes, class To, class From>
[[gnu::always_inline]] inline void add_packs(To* to, From const* from, index count) {
  for (index i = 0; i < count; i += Lanes)
    simd::store_partial(to + i,
                        simd::load_partial<Lanes>(to + i, count - i) +
                            simd::load_partial<Lanes>(from + i, count - i),
                        count - i);
}

}  // namespace parallel::host
