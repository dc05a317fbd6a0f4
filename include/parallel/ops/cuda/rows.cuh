// The launchers of sums of squares by row, and scaling by row, on cuda::stream. For nvcc.
#pragma once

#include <cstddef>
#include <iterator>

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/kernels/rows.hpp>
#include <parallel/ops/cuda/rows.hpp>

namespace parallel::cuda {

namespace detail {

/// Blocks that have a warp for every row that a range of `size` has elements in.
[[nodiscard]] inline std::size_t blocks_for_rows(ops::rows_place const& place, index size) {
  if (size == 0) return 0;
  index const rows = place.row_of(size - 1) - place.row_of(0) + 1;
  return blocks_for(static_cast<std::size_t>(rows) * warp_size);
}

}  // namespace detail

template <class T>
void row_squared_norms_impl(stream& s, std::span<double> out, std::span<T const> x,
                            ops::rows_place place) {
  detail::launch(s, "row_squared_norms", detail::blocks_for_rows(place, std::ssize(x)),
                 kernels::row_squared_norms<T>{out.data(), x.data(), std::ssize(x), place});
}

template <class T>
void scale_rows_impl(stream& s, std::span<T> x, std::span<accumulate_t<T> const> factors,
                     ops::rows_place place) {
  detail::launch(s, "scale_rows", detail::blocks_for_rows(place, std::ssize(x)),
                 kernels::scale_rows<T>{x.data(), factors.data(), std::ssize(x), place});
}

}  // namespace parallel::cuda
