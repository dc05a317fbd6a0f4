// The operations of routing on cuda::stream. For nvcc. Choices, places and counts stay in device
// memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <parallel/ops/cuda/kernels/experts/expert_order.hpp>
#include <parallel/ops/cuda/kernels/experts/expert_rows.hpp>
#include <parallel/ops/cuda/kernels/experts/jitter.hpp>
#include <parallel/ops/cuda/kernels/experts/record_routing.hpp>
#include <parallel/ops/cuda/kernels/experts/route.hpp>
#include <parallel/ops/cuda/kernels/experts/router_logits.hpp>
#include <parallel/ops/cuda/kernels/pointwise/elementwise.hpp>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/cuda/scratch.hpp>
#include <parallel/ops/experts/load_shares.hpp>

namespace parallel::cuda {

namespace detail {

/// Enqueues the counting of each chunk's choices.
inline void count_choices(stream& s, char const* operation, std::int32_t* counts,
                          std::int32_t const* experts, kernels::choice_chunks const& chunks,
                          index expert_count) {
  launch(s, operation, std::min<std::size_t>(static_cast<std::size_t>(chunks.count()), 65536),
         kernels::count_choices{counts, experts, chunks, expert_count});
}

}  // namespace detail

inline void enqueue(stream& s, ops::expert_order_arguments const& a) {
  auto const chunks = kernels::choice_chunks::for_order(a);
  index const expert_count = a.ends.size(), blocks = a.ends.extent(0);
  detail::expert_order_scratch const scratch_layout(a);
  std::byte* const memory = s.scratch(scratch_layout.total());
  auto* const counts = reinterpret_cast<std::int32_t*>(memory);
  auto* const retained = reinterpret_cast<std::int32_t*>(memory + scratch_layout.chunks);
  auto* const begins = reinterpret_cast<std::int32_t*>(memory + 2 * scratch_layout.chunks);
  detail::count_choices(s, a.name, counts, a.experts.data(), chunks, expert_count);
  kernels::add_chunks const sums{
      counts, retained,     begins, a.ends.data(),        a.lost.data(),
      chunks, expert_count, blocks, a.options.block_rows, a.options.capacity};
  detail::launch(s, a.name, 1, sums, sums.shared_bytes());
  detail::launch(s, a.name, std::min<std::size_t>(static_cast<std::size_t>(chunks.count()), 65536),
                 kernels::place_choices{a.places.data(), a.experts.data(), counts, retained, begins,
                                        chunks, expert_count, expert_count / blocks,
                                        a.options.block_rows, a.options.capacity});
}

template <class A>
void enqueue(stream& s, ops::record_routing_arguments<A> const& a) {
  using kernel = kernels::record_routing<A>;
  detail::launch(s, a.name, 1,
                 kernel{a.record.data(), a.rows(), a.experts.data(), a.lost.data(),
                        a.scores.extent(0), a.experts.size()},
                 kernel::shared_bytes);
}

template <class A>
void enqueue(stream& s, ops::choice_counts_arguments<A> const& a) {
  auto const chunks = kernels::choice_chunks::for_counts(a);
  index const sets = a.counts.extent(0), expert_count = a.counts.extent(1);
  auto* const counts = reinterpret_cast<std::int32_t*>(s.scratch(scratch_bytes(a)));
  detail::count_choices(s, a.name, counts, a.experts.data(), chunks, expert_count);
  detail::launch(s, a.name, detail::blocks_for(static_cast<std::size_t>(a.counts.size())),
                 kernels::add_set_counts<A>{a.counts.data(), counts, sets, chunks.count() / sets,
                                            expert_count});
}

}  // namespace parallel::cuda
