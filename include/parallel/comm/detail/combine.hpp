// combine: out[i] = x0[i] op x1[i] op ..., from the first source to the last or by a tree.
//
// All reductions of numbers on all backends use this arithmetic, so that backends agree in every
// bit. It works on blocks that stay in the first-level cache; each block is read completely before
// it is written, so outputs may be among the sources (at the same place).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/reduction.hpp>

namespace parallel::detail {

/// Calls `f(std::type_identity<T>{})` with the C++ type of `type`.
template <class F>
void visit(dtype type, F&& f) {
  switch (type) {
    case dtype::u8: return f(std::type_identity<std::uint8_t>{});
    case dtype::i32: return f(std::type_identity<std::int32_t>{});
    case dtype::i64: return f(std::type_identity<std::int64_t>{});
    case dtype::u64: return f(std::type_identity<std::uint64_t>{});
    case dtype::bf16: return f(std::type_identity<bf16>{});
    case dtype::f32: return f(std::type_identity<float>{});
    case dtype::f64: return f(std::type_identity<double>{});
    default: fail("communication of ", to_string(type), " elements is not supported");
  }
}

struct add {
  template <class A>
  PARALLELLM_HOST_DEVICE A operator()(A a, A b) const {
    if constexpr (std::is_integral_v<A>) {
      using wrapping = std::make_unsigned_t<A>;
      return static_cast<A>(
          static_cast<wrapping>(static_cast<wrapping>(a) + static_cast<wrapping>(b)));
    } else {
      return a + b;
    }
  }
};

// b is taken when it is NaN, and a NaN in a stays because no comparison with it is true.
struct take_max {
  template <class A>
  PARALLELLM_HOST_DEVICE A operator()(A a, A b) const {
    return b > a || b != b ? b : a;
  }
};
struct take_min {
  template <class A>
  PARALLELLM_HOST_DEVICE A operator()(A a, A b) const {
    return b < a || b != b ? b : a;
  }
};

inline constexpr std::size_t combine_block = 1024;

// sum[i] = the sources combined one after the other.
template <class T, class Op>
void fold(accumulate_t<T>* sum, std::span<void const* const> sources, std::size_t first,
          std::size_t n, Op op) {
  using wide = accumulate_t<T>;
  auto const* const head = static_cast<T const*>(sources[0]) + first;
  for (std::size_t i = 0; i < n; ++i) sum[i] = static_cast<wide>(head[i]);
  for (void const* const source : sources.subspan(1)) {
    auto const* const x = static_cast<T const*>(source) + first;
    for (std::size_t i = 0; i < n; ++i) sum[i] = op(sum[i], static_cast<wide>(x[i]));
  }
}

// Writes to every out, of elements T, the numbers that `block_of(sum, first, n)` computes for n
// elements from index `first` on.
template <class T, class BlockOf>
void combine_blocks(std::span<void* const> outs, std::size_t count, BlockOf block_of) {
  accumulate_t<T> sum[combine_block];
  for (std::size_t first = 0; first < count; first += combine_block) {
    std::size_t const n = count - first < combine_block ? count - first : combine_block;
    block_of(sum, first, n);
    for (void* const out : outs) {
      auto* const y = static_cast<T*>(out) + first;
      for (std::size_t i = 0; i < n; ++i) y[i] = static_cast<T>(sum[i]);
    }
  }
}

// sum[i] = the aligned binary tree over the sources, rounded to T at every node.
template <class T>
void tree_sum_block(accumulate_t<T>* sum, std::span<void const* const> sources, std::size_t first,
                    std::size_t n) {
  using wide = accumulate_t<T>;
  if (sources.size() == 1) {
    auto const* const x = static_cast<T const*>(sources[0]) + first;
    for (std::size_t i = 0; i < n; ++i) sum[i] = static_cast<wide>(x[i]);
    return;
  }
  std::size_t const left = std::bit_floor(sources.size() - 1);
  wide right[combine_block];
  tree_sum_block<T>(sum, sources.first(left), first, n);
  tree_sum_block<T>(right, sources.subspan(left), first, n);
  for (std::size_t i = 0; i < n; ++i)
    sum[i] = static_cast<wide>(static_cast<T>(add{}(sum[i], right[i])));
}

/// Combines `count` elements of every source, in order, and writes the result, of element type
/// result_type, to every out.
template <class = void>
void combine(dtype type, reduction op, std::span<void* const> outs,
             std::span<void const* const> sources, std::size_t count) {
  if (sources.size() == 1 && result_type(type, op) == type) {  // a single rank: at most a copy
    for (void* const out : outs)
      if (out != sources[0]) std::memcpy(out, sources[0], count * size_of(type));
    return;
  }
  visit(type, [&]<class T>(std::type_identity<T>) {
    if (op == reduction::wide_sum)
      return combine_blocks<accumulate_t<T>>(outs, count,
                                             [&](auto* sum, std::size_t first, std::size_t n) {
                                               fold<T>(sum, sources, first, n, add{});
                                             });
    combine_blocks<T>(outs, count, [&](auto* sum, std::size_t first, std::size_t n) {
      switch (op) {
        case reduction::sum:
        case reduction::wide_sum: return fold<T>(sum, sources, first, n, add{});
        case reduction::max: return fold<T>(sum, sources, first, n, take_max{});
        case reduction::min: return fold<T>(sum, sources, first, n, take_min{});
        case reduction::tree_sum: return tree_sum_block<T>(sum, sources, first, n);
      }
    });
  });
}

/// The chunk of `count` elements that rank `rank` of `ranks` reduces in an all_reduce.
struct chunk {
  std::size_t first = 0;
  std::size_t count = 0;
};
[[nodiscard]] constexpr chunk chunk_of(std::size_t count, int rank, int ranks) {
  auto const n = static_cast<std::size_t>(ranks);
  auto const r = static_cast<std::size_t>(rank);
  std::size_t const small = count / n;
  std::size_t const rest = count % n;  // the chunks of the first `rest` ranks have one more
  return r < rest ? chunk{r * (small + 1), small + 1} : chunk{r * small + rest, small};
}

}  // namespace parallel::detail
