// Sums of squares by row, and scaling by row, of a range anywhere in a matrix, as kernels: one warp
// per row, or per piece of a row that is scaled. Sums are in double, in an order that depends on
// the row's location alone. Cost: memory bandwidth, if rows are wider than a warp.
#pragma once

#include <parallel/core/dtype.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/cuda/row_groups.hpp>
#include <parallel/ops/rows.hpp>

namespace parallel::cuda::kernels {

/// Calls row(r, begin, end) for every row r that overlaps a range of `size` elements, with all
/// threads of a warp of the grid; the row's elements are [begin, end) of the range.
template <class Block, class Row>
PARALLELLM_DEVICE void for_row_parts(Block const& b, index size, ops::rows_location const& location,
                                     Row const& row) {
  if (size == 0) return;
  index const first = location.row_of(0);
  index const last = location.row_of(size - 1);
  auto const warps = static_cast<index>(b.threads() / warp_size);  // per block
  for (index r = first + static_cast<index>(b.block()) * warps +
                 static_cast<index>(b.thread() / warp_size);
       r <= last; r += static_cast<index>(b.blocks()) * warps) {
    index const begin = r == first ? 0 : r * location.width - location.first;
    row(r, begin, location.end_of_row(begin, size));
  }
}

/// out[r] += sum of x[i]^2 over the elements in row r.
template <class T>
struct row_squared_norms {
  double* out;
  T const* x;
  index size;
  ops::rows_location location;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for_row_parts(b, size, location, [&](index r, index begin, index end) {
      row_groups<T const> const part(x + begin, static_cast<unsigned>(end - begin));
      double sum = 0.0;
      for (unsigned p = b.thread() % warp_size; p < part.groups(); p += warp_size) {
        auto const values = part.load(p);
        unrolled<pack_size<T>>([&](unsigned k) {
          auto const value = static_cast<double>(values.value[k]);  // zeros at the end
          sum += value * value;
        });
      }
      sum = combine_warp(b, sum, plus{});
      if (b.thread() % warp_size == 0) out[r] += sum;
    });
  }
};

/// x[i] *= factors[row of i].
template <class T>
struct scale_rows {
  T* x;
  accumulate_t<T> const* factors;
  index size;
  ops::rows_location location;

  /// Elements that a warp scales at a time: all of the range may share one factor.
  static constexpr index piece = 4096;

  /// The number of pieces of all rows that overlap the range; some may be empty.
  [[nodiscard]] PARALLELLM_HOST_DEVICE index pieces() const {
    return size == 0 ? 0 : (location.row_of(size - 1) - location.row_of(0) + 1) * pieces_of_row();
  }

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto const warps = static_cast<index>(b.threads() / warp_size);  // per block
    for (index p =
             static_cast<index>(b.block()) * warps + static_cast<index>(b.thread() / warp_size);
         p < pieces(); p += static_cast<index>(b.blocks()) * warps) {
      index const r = location.row_of(0) + p / pieces_of_row();
      index const row =
          r * location.width - location.first;  // its beginning; may be negative for the first row
      index const in_row = p % pieces_of_row() * piece;
      index const begin = row + in_row > 0 ? row + in_row : 0;
      index const whole = row + (in_row + piece < location.width ? in_row + piece : location.width);
      scale(b, factors[r], begin, whole < size ? whole : size);
    }
  }

 private:
  [[nodiscard]] PARALLELLM_HOST_DEVICE index pieces_of_row() const {
    return (location.width + piece - 1) / piece;
  }

  template <class Block>
  PARALLELLM_DEVICE void scale(Block const& b, accumulate_t<T> factor, index begin,
                               index end) const {
    if (begin >= end) return;
    row_groups<T> const part(x + begin, static_cast<unsigned>(end - begin));
    for (unsigned p = b.thread() % warp_size; p < part.groups(); p += warp_size) {
      auto values = part.load(p);
      unrolled<pack_size<T>>([&](unsigned k) {
        values.value[k] = static_cast<T>(static_cast<accumulate_t<T>>(values.value[k]) * factor);
      });
      part.store(p, values);
    }
  }
};

}  // namespace parallel::cuda::kernels

namespace parallel::cuda {

namespace detail {

/// The number of blocks that gives one warp to every row that overlaps a range of `size` elements.
[[nodiscard]] inline std::size_t blocks_for_rows(ops::rows_location const& location, index size) {
  if (size == 0) return 0;
  index const rows = location.row_of(size - 1) - location.row_of(0) + 1;
  return cuda::blocks_for(static_cast<std::size_t>(rows) * warp_size);
}

}  // namespace detail

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::row_squared_norms_arguments<T> const& a) {
  return grid{detail::blocks_for_rows(a.location, std::ssize(a.x)),
              kernels::row_squared_norms<T>{a.out.data(), a.x.data(), std::ssize(a.x), a.location}};
}

template <class T>
[[nodiscard]] auto kernel_of(one_kernel, ops::scale_rows_arguments<T> const& a) {
  kernels::scale_rows<T> const body{a.x.data(), a.factors.data(), std::ssize(a.x), a.location};
  return grid{cuda::blocks_for(static_cast<std::size_t>(body.pieces()) * warp_size), body};
}

}  // namespace parallel::cuda
