// What attention multiplies, in the forms that tiles of floats or of pairs of bf16 take.
//
// A matrix is an operand in two ways: with the depth of the product along its rows' elements, and
// with the depth along its rows. For floats both are the same memory with other strides; pairs of
// bf16 are neighbours in depth, so each has a form of its own. Probabilities, and gradients of
// scores, are rounded to bf16 there, as values and keys are already.
#pragma once

#include <algorithm>
#include <cstdint>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/heads_view.hpp>
#include <parallel/ops/host/detail/scratch.hpp>
#include <parallel/ops/host/detail/tile.hpp>

namespace parallel::host::detail {

[[nodiscard]] constexpr index padded(index count, index multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// A matrix [rows, width] of E as an operand; width is a multiple of 16.
template <class E>
class operand_matrix;

template <>
class operand_matrix<float> {
 public:
  /// Room for `fill`; none is needed for `narrow`.
  operand_matrix(arena& memory, index rows, index width)
      : width_(width), storage_(memory, padded(rows, 16) * width) {}

  /// Rows [first, first + count) of one head; zero beyond head_dim, and up to 16 rows beyond.
  /// Row `first` is kept as row `at`, a multiple of 16.
  template <int L>
  [[gnu::always_inline]] void fill(index at, auto const& from, index b, index h, index first,
                                   index count) {
    data_ = storage_.data();
    for (index r = 0; r < padded(count, 16); ++r) {
      auto const* const row = r < count ? from.row(b, first + r, h) : nullptr;
      for (index i = 0; i < width_; i += L)
        simd::store(storage_.data() + (at + r) * width_ + i,
                    row == nullptr ? simd::pack<float, L>(0.0F)
                                   : simd::load_partial<L>(row + i, from.head_dim - i));
    }
  }

  /// The floats from[rows, width], where they are.
  template <int L>
  [[gnu::always_inline]] void narrow(float const* from, index, index width) {
    data_ = from;
    width_ = width;
  }

  [[nodiscard]] index width() const { return width_; }           // elements from row to row
  [[nodiscard]] float const* by_row() const { return data_; }    // depth along a row
  [[nodiscard]] float const* by_depth() const { return data_; }  // depth along the rows

 private:
  index width_;
  float const* data_ = nullptr;
  scratch<float> storage_;
};

template <>
class operand_matrix<bf16_pair> {
 public:
  operand_matrix(arena& memory, index rows, index width)
      : width_(width),
        by_row_(memory, padded(rows, 16) * width / 2),
        by_depth_(memory, padded(rows, 16) * width / 2) {}

  template <int L>
  [[gnu::always_inline]] void fill(index at, ops::heads_view<bf16 const> const& from, index b,
                                   index h, index first, index count) {
    index const width = width_;
    auto* const rows = reinterpret_cast<bf16*>(by_row_.data()) + at * width;
    auto* const pairs = by_depth_.data() + at / 2 * width;
    for (index r = 0; r < padded(count, 16); ++r) {
      bf16* const to = rows + r * width;
      index const filled = r < count ? from.head_dim : 0;
      if (filled > 0) std::copy_n(from.row(b, first + r, h), filled, to);
      std::fill(to + filled, to + width, bf16(0.0F));
    }
    for (index r = 0; r < padded(count, 16); r += 2)
      for (index i = 0; i < width; i += L)
        store_pairs<L>(pairs + r / 2 * width + i, rows + r * width + i, width);
  }

  /// The floats from[rows, width], rounded; the number of rows is even.
  template <int L>
  [[gnu::always_inline]] void narrow(float const* from, index rows, index width) {
    width_ = width;
    auto* const to = reinterpret_cast<bf16*>(by_row_.data());
    auto* const pairs = by_depth_.data();
    round(to, from, rows * width);
    for (index r = 0; r < rows; r += 2)
      for (index i = 0; i < width; i += L)
        store_pairs<L>(pairs + r / 2 * width + i, to + r * width + i, width);
  }

  [[nodiscard]] index width() const { return width_ / 2; }
  [[nodiscard]] bf16_pair const* by_row() const { return by_row_.data(); }
  [[nodiscard]] bf16_pair const* by_depth() const { return by_depth_.data(); }

 private:
  /// Each of L numbers with the one `width` further on.
  template <int L>
  [[gnu::always_inline]] static void store_pairs(bf16_pair* to, bf16 const* from, index width) {
    simd::pack<bf16_pair, L> pairs;
    pairs.v = simd::bits_as<bf16_pair>(simd::load<L>(from + width)).v |
              (simd::bits_as<bf16_pair>(simd::load<L>(from)).v >> 16);
    __builtin_memcpy(to, &pairs.v, sizeof pairs.v);
  }

  /// To nearest, as the processor does it (denormal numbers become zero); `count` is a multiple of
  /// 16. A function of its own, compiled for the instruction set that asm needs.
  [[gnu::target("avx512f,avx512vl"), gnu::noinline]] static void round(bf16* to, float const* from,
                                                                       index count) {
    typedef float sixteen __attribute__((vector_size(64)));
    typedef std::uint16_t halves __attribute__((vector_size(32)));
    for (index i = 0; i < count; i += 16) {
      sixteen x;
      halves rounded;
      __builtin_memcpy(&x, from + i, sizeof x);
      asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(x));
      __builtin_memcpy(static_cast<void*>(to + i), &rounded, sizeof rounded);
    }
  }

  index width_;
  scratch<bf16_pair> by_row_, by_depth_;
};

/// to[i * columns + r] = element i of row r, for i < depth: rows become lanes. `from` has rows of
/// `width` elements.
template <class E>
[[gnu::always_inline]] inline void transpose_rows(E* to, index columns, E const* from, index width,
                                                  index depth) {
  for (index r = 0; r < columns; ++r)
    for (index i = 0; i < depth; ++i) to[i * columns + r] = from[r * width + i];
}

}  // namespace parallel::host::detail
