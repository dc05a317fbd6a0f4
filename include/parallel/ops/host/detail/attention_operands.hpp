// Operands of attention's products, in the layouts that tiles of floats or of bf16 pairs need.
//
// A matrix can be the left operand with the depth of the product along its rows' elements, the left
// operand transposed, or the right operand; the latter two have the depth along the rows. For
// floats all three are the same memory with other strides. The elements of a bf16 pair are
// neighbours in depth, so each form is a separate copy. Probabilities and gradients of scores are
// rounded to bf16 there, as values and keys already are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include <parallel/core/dtype.hpp>
#include <parallel/ops/attention/heads_view.hpp>
#include <parallel/ops/host/detail/scratch.hpp>
#include <parallel/ops/host/detail/tile_amx.hpp>
#include <parallel/ops/host/detail/transpose.hpp>

namespace parallel::host::detail {

[[nodiscard]] constexpr index padded(index count, index multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

inline constexpr index attention_queries = 64;  // per block: columns of a tile
inline constexpr index attention_keys = 64;     // per block: rows of a tile

/// Depths are padded to a multiple of this, with zeros.
template <class E>
inline constexpr index depth_step = 16 * depth_of<E>;

/// The forms in which an operand is needed.
struct operand_forms {
  bool by_row = false;     // left, depth along a row
  bool by_column = false;  // left, depth along the rows
  bool by_depth = false;   // right, depth along the rows
};

/// A left operand of a product: tile_of::a with its strides.
template <class E>
struct left_operand {
  E const* data;
  index row, depth;
};

/// A matrix [rows, width] of E as an operand; width is a multiple of depth_step.
template <class E>
class operand_matrix;

template <>
class operand_matrix<float> {
 public:
  /// Allocates memory for `fill`; `narrow` needs none.
  operand_matrix(arena& memory, index rows, index width, operand_forms)
      : width_(width), storage_(memory, padded(rows, 16) * width) {}

  /// Copies rows [first, first + count) of one head, with zeros beyond head_dim and in up to 16
  /// more rows. Row `first` becomes row `target_row`, a multiple of attention_keys.
  template <int L>
  [[gnu::always_inline]] void fill(index target_row, auto const& from, index b, index h,
                                   index first, index count) {
    data_ = storage_.data();
    for (index r = 0; r < padded(count, 16); ++r) {
      auto const* const row = r < count ? from.row(b, first + r, h) : nullptr;
      for (index i = 0; i < width_; i += L)
        simd::store(storage_.data() + (target_row + r) * width_ + i,
                    row == nullptr ? simd::pack<float, L>(0.0F)
                                   : simd::load_partial<L>(row + i, from.head_dim - i));
    }
  }

  /// Uses the floats from[rows, width] without a copy.
  template <int L>
  [[gnu::always_inline]] void narrow(float const* from, index, index width) {
    data_ = from;
    width_ = width;
  }

  /// The operand from row r on; r is a multiple of attention_keys.
  [[nodiscard]] left_operand<float> by_row(index r) const { return {by_depth(r), width_, 1}; }
  [[nodiscard]] left_operand<float> by_column(index r) const { return {by_depth(r), 1, width_}; }
  [[nodiscard]] float const* by_depth(index r) const { return data_ + r * width_; }

 private:
  index width_;
  float const* data_ = nullptr;
  scratch<float> storage_;
};

template <>
class operand_matrix<bf16_pair> {
 public:
  operand_matrix(arena& memory, index rows, index width, operand_forms forms)
      : width_(width),
        forms_(forms),
        by_row_(memory, stored_rows(forms.by_row, rows) * width / 2),
        by_column_(memory, forms.by_column ? stored_rows(true, rows) * width / 2 : 0),
        by_depth_(memory, stored_rows(forms.by_depth, rows) * width / 2) {}

  template <int L>
  [[gnu::always_inline]] void fill(index target_row, ops::heads_view<bf16 const> const& from,
                                   index b, index h, index first, index count) {
    for (index r = 0; r < count; r += attention_keys)
      fill_block<L>(target_row + r, from, b, h, first + r, std::min(attention_keys, count - r));
  }

  /// Rounds the floats from[rows, width], by row or by depth; rows and width are multiples of 16,
  /// and width of 32 if the form by_row is needed.
  template <int L>
  [[gnu::always_inline]] void narrow(float const* from, index rows, index width) {
    width_ = width;
    auto* const to = reinterpret_cast<bf16*>(by_row_.data());
    if (!forms_.by_row) return round_pairs(by_depth_.data(), from, rows, width);
    round(to, from, rows * width);
    if (forms_.by_depth) pair_rows<L>(by_depth_.data(), to, rows, width);
  }

  [[nodiscard]] left_operand<bf16_pair> by_row(index r) const {
    return {by_row_.data() + r * width_ / 2, width_ / 2, 1};
  }
  [[nodiscard]] left_operand<bf16_pair> by_column(index r) const {
    return {by_column_.data() + r * width_ / 2, attention_keys / 2, 1};
  }
  [[nodiscard]] bf16_pair const* by_depth(index r) const {
    return by_depth_.data() + r * width_ / 2;
  }

 private:
  /// The number of rows to allocate: all, or one block that is only converted to another form.
  [[nodiscard]] static index stored_rows(bool wanted, index rows) {
    return wanted ? padded(rows, attention_keys) : attention_keys;
  }

  /// Copies at most one block of rows, in all forms; the columns of a block are contiguous.
  template <int L>
  [[gnu::always_inline]] void fill_block(index target_row, ops::heads_view<bf16 const> const& from,
                                         index b, index h, index first, index count) {
    index const width = width_;
    index const padded_count = padded(count, depth_step<bf16_pair>);
    auto* const rows =
        reinterpret_cast<bf16*>(by_row_.data()) + (forms_.by_row ? target_row * width : 0);
    for (index r = 0; r < padded_count; ++r) {
      bf16* const to = rows + r * width;
      index const filled = r < count ? from.head_dim : 0;
      if (filled > 0) std::copy_n(from.row(b, first + r, h), filled, to);
      std::fill(to + filled, to + width, bf16(0.0F));
    }
    if (!forms_.by_depth && !forms_.by_column) return;
    auto* const pairs = by_depth_.data() + (forms_.by_depth ? target_row / 2 * width : 0);
    pair_rows<L>(pairs, rows, padded_count, width);
    if (forms_.by_column)
      transpose<L>(by_column_.data() + target_row / 2 * width, attention_keys / 2, pairs, width,
                   padded_count / 2, width);
  }

  /// Pairs each number with the one below it: rows r and r + 1 become one row of pairs.
  template <int L>
  [[gnu::always_inline]] static void pair_rows(bf16_pair* to, bf16 const* from, index rows,
                                               index width) {
    for (index r = 0; r < rows; r += 2)
      for (index i = 0; i < width; i += L) {
        bf16 const* const upper = from + r * width + i;
        simd::pack<bf16_pair, L> pairs;
        pairs.v = simd::bits_as<bf16_pair>(simd::load<L>(upper + width)).v |
                  (simd::bits_as<bf16_pair>(simd::load<L>(upper)).v >> 16);
        __builtin_memcpy(to + r / 2 * width + i, &pairs.v, sizeof pairs.v);
      }
  }

  typedef float sixteen __attribute__((vector_size(64)));
  typedef std::uint16_t halves __attribute__((vector_size(64)));

  /// x and y rounded to nearest, as the processor does it (denormal numbers become zero).
  [[gnu::target("avx512f,avx512bw"), gnu::always_inline]] static halves rounded(float const* x,
                                                                                float const* y) {
    sixteen low, high;
    halves out;
    __builtin_memcpy(&low, x, sizeof low);
    __builtin_memcpy(&high, y, sizeof high);
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(out) : "v"(high), "v"(low));
    return out;
  }

  /// Rounds `count` floats, a multiple of 32. This and round_pairs are separate functions,
  /// compiled for the instruction set that the asm needs.
  [[gnu::target("avx512f,avx512bw"), gnu::noinline]] static void round(bf16* to, float const* from,
                                                                       index count) {
    for (index i = 0; i < count; i += 32) {
      halves const values = rounded(from + i, from + i + 16);
      __builtin_memcpy(static_cast<void*>(to + i), &values, sizeof values);
    }
  }

  [[gnu::target("avx512f,avx512bw"), gnu::noinline]] static void round_pairs(bf16_pair* to,
                                                                             float const* from,
                                                                             index rows,
                                                                             index width) {
    for (index r = 0; r < rows; r += 2)
      for (index i = 0; i < width; i += 16) {
        float const* const upper = from + r * width + i;
        halves const pairs =
            interleaved(rounded(upper, upper + width), std::make_integer_sequence<int, 32>{});
        __builtin_memcpy(to + r / 2 * width + i, &pairs, sizeof pairs);
      }
  }

  template <int... Index>
  [[gnu::target("avx512f,avx512bw"), gnu::always_inline]] static halves interleaved(
      halves values, std::integer_sequence<int, Index...>) {
    return __builtin_shufflevector(values, values, (Index / 2 + Index % 2 * 16)...);
  }

  index width_;
  operand_forms forms_;
  scratch<bf16_pair> by_row_, by_column_, by_depth_;
};

}  // namespace parallel::host::detail
