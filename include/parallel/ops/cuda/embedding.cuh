// The launchers of embeddings on cuda::stream. For nvcc; tokens are sorted by CUB, which comes with
// the CUDA Toolkit.
#pragma once

#include <cub/device/device_radix_sort.cuh>

#include <bit>
#include <cstddef>
#include <cstdint>

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/embedding.hpp>
#include <parallel/ops/cuda/kernels/embedding.hpp>
#include <parallel/ops/cuda/kernels/embedding_backward.hpp>

namespace parallel::cuda {

template <class T>
void embedding_impl(stream& s, matrix_view<T> y, vector_view<std::int32_t const> ids,
                    matrix_view<T const> table, ops::table_slice slice) {
  index const rows = y.extent(0), columns = y.extent(1);
  detail::launch(s, "embedding", detail::blocks_for(threads_in_rows<pack_size<T>>(rows, columns)),
                 kernels::embedding<T>{y.data(), ids.data(), table.data(), rows, columns,
                                       table.extent(0), slice});
}

template <class T>
void embedding_backward_impl(stream& s, matrix_view<accumulate_t<T>> dtable,
                             matrix_view<T const> dy, vector_view<std::int32_t const> ids,
                             ops::table_slice slice) {
  using A = accumulate_t<T>;
  using sorted_tokens = kernels::sorted_tokens<T>;
  constexpr auto name = "embedding_backward";
  index const count = dy.extent(0), columns = dy.extent(1), table_rows = dtable.extent(0);
  if (count == 0 || columns == 0 || table_rows == 0) return;

  // rows, tokens, the same sorted, open sums, and the sort's own memory, each aligned
  auto const aligned = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
  std::size_t const list = aligned(static_cast<std::size_t>(count) * sizeof(std::uint32_t));
  index const pieces = sorted_tokens::pieces(count);
  std::size_t const open = aligned(static_cast<std::size_t>(2 * pieces * columns) * sizeof(A));
  auto const sort = [&](void* memory, std::size_t& bytes, std::uint32_t* lists) {
    std::size_t const step = list / sizeof(std::uint32_t);
    check(cub::DeviceRadixSort::SortPairs(
              memory, bytes, lists, lists + 2 * step, lists + step, lists + 3 * step,
              static_cast<std::uint32_t>(count), 0,
              static_cast<int>(std::bit_width(static_cast<std::size_t>(table_rows))), s.get()),
          name);
  };
  device_scope const scope(s.device());
  std::size_t sort_bytes = 0;
  sort(nullptr, sort_bytes, nullptr);
  std::byte* const memory = s.scratch(4 * list + open + sort_bytes);
  auto const at = [&](std::size_t k) {
    return reinterpret_cast<std::uint32_t*>(memory + k * list);
  };

  detail::launch(s, name, detail::blocks_for(static_cast<std::size_t>(count)),
                 kernels::list_rows{at(0), at(1), ids.data(), count, table_rows, slice});
  sort(memory + 4 * list + open, sort_bytes, at(0));
  sorted_tokens const sorted{.dtable = dtable.data(),
                             .dy = dy.data(),
                             .rows = at(2),
                             .tokens = at(3),
                             .open = reinterpret_cast<A*>(memory + 4 * list),
                             .count = count,
                             .columns = columns,
                             .table_rows = table_rows};
  std::size_t const blocks =
      detail::blocks_for(threads_in_rows<group_size<T, A>, 1>(pieces, columns));
  detail::launch(s, name, blocks, kernels::sum_pieces<T>{sorted});
  detail::launch(s, name, blocks, kernels::join_pieces<T>{sorted});
}

template <class T>
void add_positions_impl(stream& s, matrix_view<T> y, matrix_view<T const> table, index sequence,
                        ops::position_options options) {
  index const rows = y.extent(0), columns = y.extent(1);
  detail::launch(s, "add_positions",
                 detail::blocks_for(threads_in_rows<pack_size<T>>(rows, columns)),
                 kernels::add_positions<T>{y.data(), table.data() + options.first * columns, rows,
                                           columns, sequence});
}

template <class T>
void add_positions_backward_impl(stream& s, matrix_view<accumulate_t<T>> dtable,
                                 matrix_view<T const> dy, index sequence,
                                 ops::position_options options) {
  using A = accumulate_t<T>;
  index const rows = dy.extent(0), columns = dy.extent(1);
  detail::launch(s, "add_positions_backward",
                 detail::blocks_for(threads_in_rows<group_size<T, A>, 1>(sequence, columns)),
                 kernels::add_positions_backward<T>{dtable.data() + options.first * columns,
                                                    dy.data(), rows, columns, sequence});
}

}  // namespace parallel::cuda
