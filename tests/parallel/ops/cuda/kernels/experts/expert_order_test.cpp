// The bodies of the order by expert and of the counts of choices on the host, against the
// reference, exactly.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <parallel/ops/cuda/kernels/experts/expert_order.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace cuda_expert_order_test {

using namespace parallel;
using parallel::index;
using parallel::testing::host_block;
using parallel::testing::thread_order;
using numbers = std::vector<std::int32_t>;

struct problem {
  index rows, top_k, experts, blocks;
  ops::expert_order_options options;
};

TEST_CASE("expert_order kernels: places, ends and losses are the reference's") {
  for (problem const& p : {problem{0, 2, 4, 1, {.block_rows = 8}},
                           {1, 1, 3, 1, {.block_rows = 1}},
                           {700, 3, 40, 1, {.block_rows = 2100}},
                           {2600, 1, 5, 1, {.block_rows = 2600}},
                           {300, 2, 6, 3, {.block_rows = 150}},
                           {500, 2, 4, 1, {.block_rows = 1000, .sequence = 130, .capacity = 50}},
                           {500, 2, 4, 2, {.block_rows = 90, .sequence = 7, .capacity = 2}},
                           {90, 1, 2, 1, {.block_rows = 90, .sequence = 400, .capacity = 30}}})
    for (auto const order :
         {thread_order::ascending, thread_order::descending, thread_order::shuffled}) {
      CAPTURE(p.rows);
      CAPTURE(p.experts);
      auto const count = static_cast<std::size_t>(p.experts);
      auto const experts =
          ops_support::random_ids(p.rows * p.top_k, static_cast<std::int32_t>(p.experts), 3);
      numbers expected_places(experts.size()), expected_ends(count), expected_lost(2);
      matrix_view<std::int32_t const> const choices(experts.data(), {p.rows, p.top_k});
      matrix_view<std::int32_t> const ends(expected_ends.data(), {p.blocks, p.experts / p.blocks});
      reference::stream plain;
      ops::expert_order(plain, {expected_places.data(), {p.rows, p.top_k}}, ends,
                        ops_support::vector(expected_lost), choices, p.options);

      ops::expert_order_arguments const a{{}, ends, {}, choices, p.options};
      auto const chunks = cuda::kernels::choice_chunks::for_order(a);
      testing::guarded<std::int32_t> places(experts.size(), 0), got_ends(count, 0), lost(2, 0);
      testing::guarded<std::int32_t> counts(count * static_cast<std::size_t>(chunks.count()), 0);
      testing::guarded<std::int32_t> kept(count * static_cast<std::size_t>(chunks.count()), 0);
      testing::guarded<std::int32_t> begins(count, 0);
      host_block::run_grid(
          3, 64, 0, order,
          cuda::kernels::count_choices{counts.data(), experts.data(), chunks, p.experts});
      cuda::kernels::add_chunks const sums{
          counts.data(), kept.data(), begins.data(), got_ends.data(),      lost.data(),
          chunks,        p.experts,   p.blocks,      p.options.block_rows, p.options.capacity};
      host_block::run_grid(1, 64, sums.shared_bytes(), order, sums);
      host_block::run_grid(
          3, 64, 0, order,
          cuda::kernels::place_choices{places.data(), experts.data(), counts.data(), kept.data(),
                                       begins.data(), chunks, p.experts, p.experts / p.blocks,
                                       p.options.block_rows, p.options.capacity});
      CHECK(places.values() == expected_places);
      CHECK(got_ends.values() == expected_ends);
      CHECK(lost.values() == expected_lost);
      for (auto const* memory : {&places, &got_ends, &lost, &counts, &kept, &begins})
        CHECK(memory->intact());
    }
}

TEST_CASE_TEMPLATE("choice_counts kernels: each set has the reference's counts", A, float, double,
                   std::uint64_t) {
  for (index const sets : {1, 2, 6})
    for (index const top_k : {1, 3}) {
      constexpr index rows = 600, experts = 70;
      auto const chosen = ops_support::random_ids(rows * top_k, experts, 4);
      std::vector<A> expected(static_cast<std::size_t>(sets * experts));
      matrix_view<A> const counts(expected.data(), {sets, experts});
      matrix_view<std::int32_t const> const choices(chosen.data(), {rows, top_k});
      reference::stream plain;
      ops::choice_counts(plain, counts, choices);
      auto const chunks = cuda::kernels::choice_chunks::for_counts(
          ops::choice_counts_arguments<A>{counts, choices});
      numbers chunk_counts(static_cast<std::size_t>(chunks.count() * experts));
      host_block::run_grid(
          2, 64, 0, thread_order::shuffled,
          cuda::kernels::count_choices{chunk_counts.data(), chosen.data(), chunks, experts});
      testing::run_on_copies(
          std::vector<A>(expected.size()), 2, 64, 0,
          [&](A* to) {
            return cuda::kernels::add_set_counts<A>{to, chunk_counts.data(), sets,
                                                    chunks.count() / sets, experts};
          },
          [&](auto const& got) { CHECK(got == expected); });
    }
}

}  // namespace cuda_expert_order_test
