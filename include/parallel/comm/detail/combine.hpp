// combine: out[i] = x0[i] op x1[i] op ..., from the first source to the last.
//
// The one place where numbers are reduced, on every backend, so that backends agree in every bit.
// Works on blocks that stay in the first-level cache; each block is read completely before it is
// written, so outputs may be among the sources (at the same place).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include <parallel/comm/detail/visit.hpp>
#include <parallel/comm/reduction.hpp>

namespace parallel::detail {

struct add {
  template <class A>
  A operator()(A a, A b) const {
    if constexpr (std::is_integral_v<A>) {
      using wrapping = std::make_unsigned_t<A>;
      return static_cast<A>(
          static_cast<wrapping>(static_cast<wrapping>(a) + static_cast<wrapping>(b)));
    } else {
      return a + b;
    }
  }
};

// b is taken when it is NaN, and a NaN in a stays because nothing compares to it.
struct take_max {
  template <class A>
  A operator()(A a, A b) const {
    return b > a || b != b ? b : a;
  }
};
struct take_min {
  template <class A>
  A operator()(A a, A b) const {
    return b < a || b != b ? b : a;
  }
};

template <class T, class Op>
void combine_blocks(std::span<void* const> outs, std::span<void const* const> sources,
                    std::size_t count, Op op) {
  using wide = accumulate_t<T>;
  constexpr std::size_t block = 1024;
  wide sum[block];
  for (std::size_t first = 0; first < count; first += block) {
    std::size_t const n = std::min(block, count - first);
    auto const* const head = static_cast<T const*>(sources[0]) + first;
    for (std::size_t i = 0; i < n; ++i) sum[i] = static_cast<wide>(head[i]);
    for (void const* const source : sources.subspan(1)) {
      auto const* const x = static_cast<T const*>(source) + first;
      for (std::size_t i = 0; i < n; ++i) sum[i] = op(sum[i], static_cast<wide>(x[i]));
    }
    for (void* const out : outs) {
      auto* const y = static_cast<T*>(out) + first;
      for (std::size_t i = 0; i < n; ++i) y[i] = static_cast<T>(sum[i]);
    }
  }
}

/// Combines `count` elements of every source, in order, and writes the result to every out.
inline void combine(dtype type, reduction how, std::span<void* const> outs,
                    std::span<void const* const> sources, std::size_t count) {
  if (sources.size() == 1) {  // one rank: a copy, or nothing
    for (void* const out : outs)
      if (out != sources[0]) std::memcpy(out, sources[0], count * size_of(type));
    return;
  }
  visit(type, [&]<class T>(std::type_identity<T>) {
    switch (how) {
      case reduction::sum: return combine_blocks<T>(outs, sources, count, add{});
      case reduction::max: return combine_blocks<T>(outs, sources, count, take_max{});
      case reduction::min: return combine_blocks<T>(outs, sources, count, take_min{});
    }
  });
}

/// The part of `count` elements that rank `rank` of `ranks` reduces in an all_reduce.
struct chunk {
  std::size_t first = 0;
  std::size_t count = 0;
};
[[nodiscard]] constexpr chunk chunk_of(std::size_t count, int rank, int ranks) {
  auto const n = static_cast<std::size_t>(ranks);
  auto const r = static_cast<std::size_t>(rank);
  std::size_t const small = count / n;
  std::size_t const rest = count % n;  // the first `rest` ranks take one more
  return {r * small + std::min(r, rest), small + (r < rest ? 1 : 0)};
}

}  // namespace parallel::detail
