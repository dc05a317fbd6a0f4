// Mixed layouts where every call is delayed by a random time: ranks and streams run in another
// order each time, and the result must be the same.
#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

#include <parallel/comm/delayed.hpp>

#include "support/ring/ring_matrix.hpp"

namespace stepper_delay_test {

void check(std::size_t layouts, std::uint64_t seeds) {
  test::ring_references references;
  std::size_t runs = 0;
  for (auto const& run_layout : spread(test::all_layouts(8, 2), layouts)) {
    if (!refusal(run_layout).empty()) continue;
    auto const description = text(run_layout);
    CAPTURE(description);
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      CAPTURE(seed);
      auto const outcome = test::run(run_layout, [&](parallel::threads::communicator comm) {
        auto const own_seed = seed * 100 + static_cast<std::uint64_t>(comm.rank());
        return parallel::delayed(std::move(comm), {.seed = own_seed});
      });
      CHECK(difference(outcome, references.outcome_of(run_layout)) == "");
      ++runs;
    }
  }
  MESSAGE(runs << " runs with random delays equal one rank bit for bit");
}

TEST_CASE("stepper: random delays change no bit in a sample of mixed layouts") { check(20, 1); }
TEST_CASE("[full] stepper: random delays change no bit in mixed layouts") { check(100, 3); }

}  // namespace stepper_delay_test
