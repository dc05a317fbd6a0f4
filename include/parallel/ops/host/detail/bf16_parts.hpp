// Operands of a product in the form that the matrix unit needs: tiles of bf16 pairs.
//
// The unit multiplies bf16 only. A float has 24 bits and is the sum of three bf16 of 8 bits each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <parallel/core/tensor.hpp>
#include <parallel/ops/host/detail/tile.hpp>
#include <parallel/ops/host/detail/transpose.hpp>
#include <parallel/ops/host/simd.hpp>

namespace parallel::host::detail {

/// The number of bf16 that sum up to a T.
template <class T>
inline constexpr int parts_of = std::is_same_v<T, float> ? 3 : 1;

/// 16 numbers of T, each as the bf16 that sum up to it, greatest first, each in the upper half of a
/// float. A float from 2^-110 to 2^127 is exactly their sum. Below that range the smallest bf16
/// loses its lower bits; an infinity gives NaN.
template <class T>
struct bf16_parts {
  using floats = simd::pack<float, 16>;
  floats part[parts_of<T>];

  [[gnu::always_inline]] explicit bf16_parts(floats const& x) {
    if constexpr (std::is_same_v<T, float>) {
      part[0] = upper_half(x, 0x8000U);
      floats const rest = x - part[0];
      part[1] = upper_half(rest, 0x8000U);
      part[2] = upper_half(rest - part[1], 0);  // 8 bits are left
    } else {
      part[0] = x;
    }
  }

 private:
  [[gnu::always_inline]] static floats upper_half(floats const& x, std::uint32_t rounding) {
    auto bits = simd::bits_as<std::uint32_t>(x);
    bits.v = (bits.v + rounding) & 0xffff0000U;
    return simd::bits_as<float>(bits);
  }
};

inline constexpr index tile_pairs = 256;  // pairs of a tile: 16 rows of 16

/// The source of a tile: 16 rows of a left operand, or 16 columns of a right one. One of the two
/// strides is 1; `width` <= 16 and `depth` <= 32 elements exist.
template <class T>
struct tile_source {
  T const* data;
  index width_stride, depth_stride;
  index width, depth;
};

namespace packing {

/// Packs row `row` of the tile, in pairs of neighbours in depth, from elements that are neighbours
/// in depth.
template <class T>
[[gnu::always_inline]] inline void pair_neighbours(bf16_pair* to, index part_stride,
                                                   tile_source<T> const& from, index row) {
  T const* const line = from.data + row * from.width_stride;
  index const count = row < from.width ? from.depth : 0;
  for (index half = 0; half < 32; half += 16) {
    bf16_parts<T> const x(simd::load_partial<16>(line + half, std::max<index>(count - half, 0)));
    for (int p = 0; p < parts_of<T>; ++p) {
      simd::pack<std::uint16_t, 16> upper;
      upper.v = __builtin_convertvector(simd::bits_as<std::uint32_t>(x.part[p]).v >> 16,
                                        typename simd::pack<std::uint16_t, 16>::raw);
      __builtin_memcpy(to + p * part_stride + half / 2, &upper.v, sizeof upper.v);
    }
  }
}

/// Packs the pairs of depths 2 `pair` and 2 `pair` + 1, from elements that are neighbours in width.
template <class T>
[[gnu::always_inline]] inline void pair_lines(bf16_pair* to, index part_stride,
                                              tile_source<T> const& from, index pair) {
  auto const line = [&](index depth) __attribute__((always_inline)) {
    return bf16_parts<T>(simd::load_partial<16>(from.data + depth * from.depth_stride,
                                                depth < from.depth ? from.width : 0));
  };
  bf16_parts<T> const even_line = line(2 * pair);
  bf16_parts<T> const odd_line = line(2 * pair + 1);
  for (int p = 0; p < parts_of<T>; ++p) {
    auto line_pairs = simd::bits_as<std::uint32_t>(even_line.part[p]);
    line_pairs.v = line_pairs.v >> 16 | simd::bits_as<std::uint32_t>(odd_line.part[p]).v;
    __builtin_memcpy(to + p * part_stride, &line_pairs.v, sizeof line_pairs.v);
  }
}

}  // namespace packing

/// Copies a source to the tiles of all parts, which are `part_stride` pairs apart: [width][depth /
/// 2] for a left operand, [depth / 2][width] for a right one, with zeros where the source has no
/// elements.
template <bool Left, class T>
[[gnu::always_inline]] inline void pack_tile(bf16_pair* to, index part_stride,
                                             tile_source<T> const& from) {
  bool const by_depth = from.depth_stride == 1;
  bool const must_transpose = by_depth != Left;
  alignas(64) bf16_pair transposed[parts_of<T> * tile_pairs];
  bf16_pair* const rows = must_transpose ? transposed : to;
  index const rows_part_stride = must_transpose ? tile_pairs : part_stride;
  for (index row = 0; row < 16; ++row)
    if (by_depth)
      packing::pair_neighbours(rows + row * 16, rows_part_stride, from, row);
    else
      packing::pair_lines(rows + row * 16, rows_part_stride, from, row);
  if (!must_transpose) return;
  for (int p = 0; p < parts_of<T>; ++p)
    transpose<16>(to + p * part_stride, 16, transposed + p * tile_pairs, 16, 16, 16);
}

}  // namespace parallel::host::detail
