// record_routing as a kernel of one block: a thread counts the choices of some experts, and adds up
// some of the rows; the sums of the threads are added in a fixed order.
#pragma once

#include <cstdint>

#include <parallel/device/cuda/block.hpp>
#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/experts/record_routing.hpp>

namespace parallel::cuda::kernels {

template <class A>
struct record_routing {
  double* record;
  ops::detail::recorded_rows<A> rows;
  std::int32_t const* experts;
  std::int32_t const* lost;
  index count, choices;  // rows, and choices of all rows

  static constexpr std::size_t shared_bytes = 3 * std::size_t{warp_size} * sizeof(double);

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto* const memory = b.template shared<double>();
    for_each_in_block(b, static_cast<std::size_t>(rows.expert_count), [this](std::size_t e) {
      index found = 0;
      for (index i = 0; i < choices; ++i)
        found += experts[i] == static_cast<std::int32_t>(e) ? 1 : 0;
      record[e] += static_cast<double>(found);
    });
    ops::detail::routing_sums sums;
    for_each_in_block(b, static_cast<std::size_t>(count),
                      [&](std::size_t m) { sums += rows.row(static_cast<index>(m)); });
    sums.balance = combine_block(b, sums.balance, memory, plus{});
    sums.z = combine_block(b, sums.z, memory + warp_size, plus{});
    sums.entropy = combine_block(b, sums.entropy, memory + 2 * warp_size, plus{});
    if (b.thread() == 0) ops::detail::add_routing(record + rows.expert_count, sums, count, lost);
  }
};

}  // namespace parallel::cuda::kernels
