// Loops over elements by all threads of a grid, a group at a time: out[i] = f(in0[i], in1[i], ...)
// and the loops that it uses, over flat arrays and over rows. If a pointer is not aligned to
// groups, elements are processed one by one.
#pragma once

#include <cstddef>

#include <parallel/core/dtype.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/ops/cuda/group.hpp>

namespace parallel::cuda {

/// Calls f<n>(i) for groups [i, i + n) of [0, count), divided among all threads of the grid. n is
/// N, and 1 for the remainder, or for everything unless `aligned`.
template <unsigned N, class Block, class F>
PARALLELLM_DEVICE void for_each_group_of_grid(Block const& b, std::size_t count, bool aligned,
                                              F const& f) {
  std::size_t const groups = aligned ? count / N : 0;
  for_each_in_grid(b, groups, [&](std::size_t g) { f.template operator()<N>(g * N); });
  for_each_in_grid(b, count - groups * N,
                   [&](std::size_t i) { f.template operator()<1>(groups * N + i); });
}

/// out[i] = f(in0[i], in1[i], ...) for i in [0, count). f takes accumulate_t of the inputs' types
/// and returns that of T, or T itself; the result is rounded once. out may be one of the inputs.
template <class Block, class F, class T, class... In>
PARALLELLM_DEVICE void for_each_element(Block const& b, std::size_t count, F const& f, T* out,
                                        In const*... in) {
  constexpr unsigned N = group_size<T, In...>;
  for_each_group_of_grid<N>(b, count, groupable<N>(out, in...), [&]<unsigned n>(std::size_t first) {
    auto const compute = [&](auto const&... x) {
      group<T, n> y;
      for (unsigned i = 0; i < n; ++i)
        y.value[i] = static_cast<T>(f(static_cast<accumulate_t<In>>(x.value[i])...));
      return y;
    };
    store_group(out + first, compute(load_group<n>(in + first)...));
  });
}

/// The number of threads that process [rows, columns] when each takes up to Each groups of N
/// elements of a row: for the launch of for_each_in_rows.
template <unsigned N, unsigned Each = 4>
[[nodiscard]] constexpr std::size_t threads_in_rows(index rows, index columns) {
  constexpr auto piece = static_cast<index>(warp_size * N * Each);
  return static_cast<std::size_t>(rows * ((columns + piece - 1) / piece)) * warp_size;
}

/// Calls f<n>(r, c) for groups [c, c + n) of the columns of every row r, divided among all warps of
/// the grid. n is N, or 1 unless `aligned`. A warp stays in a row for Each groups per lane, so that
/// finding the row, a division, costs little; Each = 1 is for an f that does much work itself.
template <unsigned N, unsigned Each = 4, class Block, class F>
PARALLELLM_DEVICE void for_each_in_rows(Block const& b, index rows, index columns, bool aligned,
                                        F const& f) {
  if constexpr (N > 1) {
    if (!aligned) return for_each_in_rows<1, Each>(b, rows, columns, true, f);
  }
  constexpr auto step = static_cast<index>(warp_size * N);
  constexpr auto piece = step * index{Each};
  index const pieces = (columns + piece - 1) / piece;  // per row
  index const warps = static_cast<index>(b.blocks()) * (b.threads() / warp_size);
  index const lane = static_cast<index>(b.thread() % warp_size * N);
  for (index piece_index = static_cast<index>(b.block()) * (b.threads() / warp_size) +
                           static_cast<index>(b.thread() / warp_size);
       piece_index < rows * pieces; piece_index += warps) {
    index const r = piece_index / pieces;
    index const begin = (piece_index - r * pieces) * piece;
    index const end = begin + piece < columns ? begin + piece : columns;
    for (index c = begin + lane; c < end; c += step) f.template operator()<N>(r, c);
  }
}

}  // namespace parallel::cuda
