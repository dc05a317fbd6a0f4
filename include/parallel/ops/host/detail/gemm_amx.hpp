// A matrix product by the processor's matrix unit, for bf16 and for float.
//
// A float is split into three bf16 parts (bf16_parts.hpp), so a product of two floats is nine
// products of parts. The six that affect the last bit are summed; the others are below 2^-26 of the
// product. A float product therefore costs six times as much as a bf16 product, which is still less
// than with SIMD registers, and has the error of sums in float. (Henry,
// Tang, Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
// Computations", 2019.) An infinity becomes NaN; products and parts below 2^-126 count as zero.
//
// Operands are copied to tiles first: B for as many columns as fit in 16 MiB, by all threads; A for
// a strip of 256 rows, by the thread that computes it. Two by two tiles of C accumulate in the
// unit's registers over a depth for which B's part stays in the first-level cache. The order of all
// sums depends on the depth alone: neither the number of threads nor that of rows changes a result.
// (Goto, van de Geijn, "Anatomy of high-performance matrix multiplication", 2008.)
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/host/detail/bf16_parts.hpp>
#include <parallel/ops/host/detail/operand.hpp>
#include <parallel/ops/host/detail/scratch.hpp>
#include <parallel/ops/host/detail/tile_amx.hpp>
#include <parallel/ops/host/parallel_for.hpp>
#include <parallel/ops/host/simd.hpp>

namespace parallel::host::detail {

/// The indices of a part of A and a part of B that are multiplied.
struct term {
  int a, b;
};

/// The terms of a product, in an order in which only one of a and b changes from term to term.
template <int Parts>
inline constexpr std::array<term, 1> terms_of{{{0, 0}}};
template <>
inline constexpr std::array<term, 6> terms_of<3>{{{2, 0}, {0, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}}};

template <class T, class C>
struct gemm_amx {
  index m = 0, n = 0, k = 0;  // k > 0
  operand<T> a, b;
  C* c = nullptr;
  index ldc = 0;
  C const* addend = nullptr;             // its rows are ldc apart; may be c
  index packed_bytes = index(16) << 20;  // bytes of B that are packed at a time,
  index min_block = 32;                  // but at least this number of panels

  static constexpr int parts = parts_of<T>;
  static constexpr index panel = 32;                           // rows or columns: two tiles
  static constexpr index step = 32;                            // depth of a tile
  static constexpr index step_pairs = parts * 2 * tile_pairs;  // of a panel, as [part][tile]
  static constexpr index near_steps = parts == 1 ? 8 : 4;      // B's panel in the first-level cache
  static constexpr index far_depth =
      parts == 1 ? 2048 : 768;  // A's strip in the second-level cache
  static constexpr index strip = 256;
  static constexpr index strip_sums = strip * panel;
  static constexpr index min_piece = 8;

  [[nodiscard]] static constexpr index count_of(index size, index piece) {
    return (size + piece - 1) / piece;
  }

  /// Packs the panel of rows of A, or columns of B, that begins at `first`, for depths [begin,
  /// end).
  template <bool Left>
  [[gnu::always_inline]] static void pack_panel(bf16_pair* to, operand<T> const& from, index first,
                                                index limit, index begin, index end) {
    index const width_stride = Left ? from.row : from.column;
    index const depth_stride = Left ? from.column : from.row;
    for (index first_k = begin; first_k < end; first_k += step, to += step_pairs)
      for (index half = 0; half < panel; half += 16)
        pack_tile<Left>(to + half / 16 * tile_pairs, 2 * tile_pairs,
                        tile_source<T>{.data = from.data + (first + half) * width_stride +
                                               first_k * depth_stride,
                                       .width_stride = width_stride,
                                       .depth_stride = depth_stride,
                                       .width = std::clamp<index>(limit - first - half, 0, 16),
                                       .depth = std::min(step, end - first_k)});
  }

  /// sum[32, 32] = or += a panel of A times a panel of B, over a depth of `steps` tiles.
  template <tile_store Store>
  static void multiply_panels(index steps, bf16_pair const* left, bf16_pair const* right,
                              float* sum) {
    constexpr auto const& terms = terms_of<parts>;
    constexpr auto term_indices = std::make_integer_sequence<int, static_cast<int>(terms.size())>{};
    begin_tile<0, Store>(sum, panel);
    begin_tile<1, Store>(sum + 16, panel);
    begin_tile<2, Store>(sum + 16 * panel, panel);
    begin_tile<3, Store>(sum + 16 * panel + 16, panel);
    for (index s = 0; s < steps; ++s, left += step_pairs, right += step_pairs)
      simd::unrolled(
          term_indices, [&](auto term_index) __attribute__((always_inline)) {
            constexpr term current = terms[term_index];
            constexpr term previous =
                terms[static_cast<std::size_t>(std::max(int{term_index} - 1, 0))];
            bf16_pair const* const a_tiles = left + current.a * 2 * tile_pairs;
            bf16_pair const* const b_tiles = right + current.b * 2 * tile_pairs;
            if constexpr (term_index == 0 || current.b != previous.b) load_tile<6>(b_tiles, 16);
            if constexpr (term_index == 0 || current.a != previous.a) load_tile<4>(a_tiles, 16);
            multiply_tiles<0, 4, 6>();
            if constexpr (term_index == 0 || current.b != previous.b)
              load_tile<7>(b_tiles + tile_pairs, 16);
            multiply_tiles<1, 4, 7>();
            if constexpr (term_index == 0 || current.a != previous.a)
              load_tile<5>(a_tiles + tile_pairs, 16);
            multiply_tiles<2, 5, 6>();
            multiply_tiles<3, 5, 7>();
          });
    store_tile<0>(sum, panel);
    store_tile<1>(sum + 16, panel);
    store_tile<2>(sum + 16 * panel, panel);
    store_tile<3>(sum + 16 * panel + 16, panel);
  }

  /// Writes the sums of `rows` rows of a panel of columns to C. Prefetches the lines of the next
  /// panel: the rows of C are on different pages, which the hardware prefetcher does not foresee.
  [[gnu::always_inline]] void write(float const* sum, index row, index rows, index column) const {
    index const left = n - column;
    for (index i = 0; i < rows; ++i) {
      C* const line = c + (row + i) * ldc + column;
      if (left > panel) __builtin_prefetch(line + panel, 1, 2);
      for (index j = 0; j < std::min(panel, left); j += 16) {
        auto total = simd::load<16>(sum + i * panel + j);
        if (addend != nullptr) total += simd::load_partial<16>(addend + (line - c) + j, left - j);
        simd::store_partial(line + j, total, left - j);
      }
    }
  }

  struct space {
    space(arena& memory, index a_pairs, index sums) : a(memory, a_pairs), sum(memory, sums) {}
    scratch<bf16_pair> a;  // [near_steps][panel][step]: contiguous in the order of reading
    scratch<float> sum;    // [panel of columns][row][32]
  };

  /// Computes rows [row, row + strip) of C in `panels` panels of columns from `column` on; `right`
  /// is the packed part of B for them.
  [[gnu::always_inline]] void multiply_strip(index row, index column, index panels,
                                             bf16_pair const* right, space& buffers) const {
    tile_shapes const shapes(multiplier::matrix_unit);
    index const rows = std::min(strip, m - row);
    index const all_steps = count_of(k, step);
    for (index first_k = 0; first_k < k; first_k += far_depth) {
      index const end = std::min(k, first_k + far_depth);
      index const steps = count_of(end - first_k, step);
      auto const left = [&](index near, index i) {
        return buffers.a.data() +
               (near * count_of(rows, panel) + i / panel * std::min(near_steps, steps - near)) *
                   step_pairs;
      };
      for (index near = 0; near < steps; near += near_steps)
        for (index i = 0; i < rows; i += panel)
          pack_panel<true>(left(near, i), a, row + i, m, first_k + near * step,
                           std::min(end, first_k + (near + near_steps) * step));
      for (index p = 0; p < panels; ++p) {
        float* const sum = buffers.sum.data() + (k > far_depth ? p * strip_sums : 0);
        bf16_pair const* const b_panel = right + (p * all_steps + first_k / step) * step_pairs;
        for (index near = 0; near < steps; near += near_steps) {
          auto const multiply = first_k + near == 0 ? multiply_panels<tile_store::assign>
                                                    : multiply_panels<tile_store::add>;
          for (index i = 0; i < rows; i += panel)
            multiply(std::min(near_steps, steps - near), left(near, i), b_panel + near * step_pairs,
                     sum + i * panel);
        }
        if (end == k) write(sum, row, rows, column + p * panel);
      }
    }
  }

  /// Computes C. The processor must have the unit (has_matrix_unit).
  void operator()(workspace& memory, int threads) const {
    if (m == 0 || n == 0) return;
    index const panel_pairs = count_of(k, step) * step_pairs;
    index const panel_bytes = panel_pairs * static_cast<index>(sizeof(bf16_pair));
    index const block = std::min(std::max(packed_bytes / panel_bytes, min_block),
                                 count_of(n, panel));  // panels of B packed at a time
    index const strips = count_of(m, strip);
    index const team = std::max(threads, 1);
    // A task is a strip times a piece of the block's panels. All tasks take about the same time, so
    // each thread gets the same number of them. A piece has at least min_piece panels, because each
    // task packs its strip of A.
    index const piece =
        count_of(block, std::min(team / std::gcd(team, strips), count_of(block, min_piece)));
    index const a_pairs =
        count_of(std::min(m, strip), panel) * count_of(std::min(k, far_depth), step) * step_pairs;
    index const sums = strip_sums * (k > far_depth ? piece : 1);
    auto const packed_size = static_cast<std::size_t>(block * panel_bytes);
    std::byte* const workspace_bytes = memory.take(
        packed_size + bytes_of_space<space>(a_pairs, sums) * static_cast<std::size_t>(team));
    auto* const packed = reinterpret_cast<bf16_pair*>(workspace_bytes);
    for (index column = 0; column < n; column += block * panel) {
      index const panels = std::min(block, count_of(n - column, panel));
      parallel_for(threads, panels, 1, [&](index p, index) {
        simd::dispatch_to(
            16, [&](auto) __attribute__((always_inline)) {
              pack_panel<false>(packed + p * panel_pairs, b, column + p * panel, n, 0, k);
            });
      });
      with_scratch_at<space>(
          workspace_bytes + packed_size, threads, strips * count_of(panels, piece),
          [&](index task, space& buffers) {
            index const first = task / strips * piece;
            simd::dispatch_to(
                16, [&](auto) __attribute__((always_inline)) {
                  multiply_strip(task % strips * strip, column + first * panel,
                                 std::min(piece, panels - first), packed + first * panel_pairs,
                                 buffers);
                });
          },
          a_pairs, sums);
    }
  }
};

}  // namespace parallel::host::detail
