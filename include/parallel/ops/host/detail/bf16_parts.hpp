// Operands of a product as the matrix unit takes them: tiles of pairs of bf16.
//
// The unit multiplies bf16 only. A float, of 24 bits, is the sum of three bf16 of 8 bits each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <parallel/core/tensor.hpp>
#include <parallel/ops/host/detail/tile.hpp>
#include <parallel/ops/host/detail/transpose.hpp>
#include <parallel/ops/host/simd.hpp>

namespace parallel::host::detail {

/// How many bf16 sum up to a T.
template <class T>
inline constexpr int parts_of = std::is_same_v<T, float> ? 3 : 1;

/// 16 numbers of T as the bf16 that sum up to them, greatest first, each in the upper half of a
/// float. A float from 2^-110 to 2^127 is their sum exactly; the least of them has lost its lower
/// bits below that, and an infinity leaves NaN.
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

inline constexpr index tile_pairs = 256;  // of a tile: 16 rows of 16

/// Where 16 rows of a left operand, or 16 columns of a right one, begin: elements lie `along` apart
/// in width and `deep` apart in depth, one of which is 1; `width` <= 16 and `depth` <= 32 of them
/// are there.
template <class T>
struct tile_source {
  T const* data;
  index along, deep;
  index width, depth;
};

namespace packing {

/// Row `row` of the tile, neighbours in depth paired, from elements that are neighbours in depth.
template <class T>
[[gnu::always_inline]] inline void pair_neighbours(bf16_pair* to, index apart,
                                                   tile_source<T> const& from, index row) {
  T const* const line = from.data + row * from.along;
  index const count = row < from.width ? from.depth : 0;
  for (index half = 0; half < 32; half += 16) {
    bf16_parts<T> const x(simd::load_partial<16>(line + half, std::max<index>(count - half, 0)));
    for (int p = 0; p < parts_of<T>; ++p) {
      simd::pack<std::uint16_t, 16> upper;
      upper.v = __builtin_convertvector(simd::bits_as<std::uint32_t>(x.part[p]).v >> 16,
                                        typename simd::pack<std::uint16_t, 16>::raw);
      __builtin_memcpy(to + p * apart + half / 2, &upper.v, sizeof upper.v);
    }
  }
}

/// The pairs of depth 2 `pair` and the next, from elements that are neighbours in width.
template <class T>
[[gnu::always_inline]] inline void pair_lines(bf16_pair* to, index apart,
                                              tile_source<T> const& from, index pair) {
  auto const line = [&](index depth) __attribute__((always_inline)) {
    return bf16_parts<T>(
        simd::load_partial<16>(from.data + depth * from.deep, depth < from.depth ? from.width : 0));
  };
  bf16_parts<T> const even = line(2 * pair);
  bf16_parts<T> const odd = line(2 * pair + 1);
  for (int p = 0; p < parts_of<T>; ++p) {
    auto both = simd::bits_as<std::uint32_t>(even.part[p]);
    both.v = both.v >> 16 | simd::bits_as<std::uint32_t>(odd.part[p]).v;
    __builtin_memcpy(to + p * apart, &both.v, sizeof both.v);
  }
}

}  // namespace packing

/// Copies to the tiles of all parts, `apart` pairs from one to the next: [width][depth / 2] of a
/// left operand, [depth / 2][width] of a right one, with zeros where nothing is.
template <bool Left, class T>
[[gnu::always_inline]] inline void pack_tile(bf16_pair* to, index apart,
                                             tile_source<T> const& from) {
  bool const by_depth = from.deep == 1;
  bool const turns = by_depth != Left;
  alignas(64) bf16_pair turned[parts_of<T> * tile_pairs];
  bf16_pair* const rows = turns ? turned : to;
  index const rows_apart = turns ? tile_pairs : apart;
  for (index row = 0; row < 16; ++row)
    if (by_depth)
      packing::pair_neighbours(rows + row * 16, rows_apart, from, row);
    else
      packing::pair_lines(rows + row * 16, rows_apart, from, row);
  if (!turns) return;
  for (int p = 0; p < parts_of<T>; ++p)
    transpose<16>(to + p * apart, 16, turned + p * tile_pairs, 16, 16, 16);
}

}  // namespace parallel::host::detail
