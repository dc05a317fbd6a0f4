// Embeddings on cuda::stream. For nvcc; CUB, which is part of the CUDA Toolkit, sorts tokens.
//
// Ids are device memory. An id outside of the vocabulary gives a row of NaN (all ones in integers),
// and its gradient is dropped. Scratch of embedding_backward: 16 bytes per token, a row of
// accumulate_t<T> per 16 tokens, and the scratch of the sort.
#pragma once

#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <parallel/ops/cuda/kernels/embedding.hpp>
#include <parallel/ops/cuda/kernels/embedding_backward.hpp>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/cuda/scratch.hpp>
#include <parallel/ops/embedding.hpp>

namespace parallel::cuda {

template <class T>
void enqueue(stream& s, ops::embedding_arguments<T> const& a) {
  index const rows = a.y.extent(0), columns = a.y.extent(1);
  detail::launch(s, "embedding", detail::blocks_for(threads_in_rows<pack_size<T>>(rows, columns)),
                 kernels::embedding<T>{a.y.data(), a.ids.data(), a.table.data(), rows, columns,
                                       a.table.extent(0), a.slice});
}

template <class T>
void enqueue(stream& s, ops::embedding_backward_arguments<T> const& a) {
  using A = accumulate_t<T>;
  using sorted_tokens = kernels::sorted_tokens<T>;
  constexpr auto name = "embedding_backward";
  index const count = a.dy.extent(0), columns = a.dy.extent(1), table_rows = a.dtable.extent(0);
  if (count == 0 || columns == 0 || table_rows == 0) return;

  // rows, tokens, the same two lists sorted, open sums, and the sort's own memory
  detail::embedding_backward_scratch<T> const scratch_layout(count, columns);
  std::size_t const list = scratch_layout.list, open = scratch_layout.open;
  index const pieces = sorted_tokens::pieces(count);
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
  std::byte* const memory = s.scratch(4 * list + open + std::max(sort_bytes, scratch_layout.sort));
  auto const list_at = [&](std::size_t k) {
    return reinterpret_cast<std::uint32_t*>(memory + k * list);
  };

  detail::launch(
      s, name, detail::blocks_for(static_cast<std::size_t>(count)),
      kernels::list_rows{list_at(0), list_at(1), a.ids.data(), count, table_rows, a.slice});
  sort(memory + 4 * list + open, sort_bytes, list_at(0));
  sorted_tokens const sorted{.dtable = a.dtable.data(),
                             .dy = a.dy.data(),
                             .rows = list_at(2),
                             .tokens = list_at(3),
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
void enqueue(stream& s, ops::add_positions_arguments<T> const& a) {
  index const rows = a.y.extent(0), columns = a.y.extent(1);
  detail::launch(s, "add_positions",
                 detail::blocks_for(threads_in_rows<pack_size<T>>(rows, columns)),
                 kernels::add_positions<T>{a.y.data(), a.table.data() + a.options.first * columns,
                                           rows, columns, a.sequence});
}

template <class T>
void enqueue(stream& s, ops::add_positions_backward_arguments<T> const& a) {
  using A = accumulate_t<T>;
  index const rows = a.dy.extent(0), columns = a.dy.extent(1);
  detail::launch(s, "add_positions_backward",
                 detail::blocks_for(threads_in_rows<group_size<T, A>, 1>(a.sequence, columns)),
                 kernels::add_positions_backward<T>{a.dtable.data() + a.options.first * columns,
                                                    a.dy.data(), rows, columns, a.sequence});
}

}  // namespace parallel::cuda
