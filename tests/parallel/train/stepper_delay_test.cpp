// Mixed layouts whose every call comes late by a random time: ranks and streams meet in another
// order in every run, and the result is the same.
#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

#include <parallel/comm/delayed.hpp>

#include "support/ring_matrix.hpp"

namespace stepper_delay_test {

void check(std::size_t layouts, std::uint64_t seeds) {
  test::ring_references references;
  std::size_t runs = 0;
  for (auto const& how : spread(test::all_layouts(8, 2), layouts)) {
    if (!refusal(how).empty()) continue;
    auto const words = text(how);
    CAPTURE(words);
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      CAPTURE(seed);
      auto const got = test::run(how, [&](parallel::threads::communicator comm) {
        auto const own = seed * 100 + static_cast<std::uint64_t>(comm.rank());
        return parallel::delayed(std::move(comm), {.seed = own});
      });
      CHECK(difference(got, references.outcome_of(how)) == "");
      ++runs;
    }
  }
  MESSAGE(runs << " runs with random delays equal one rank bit for bit");
}

TEST_CASE("random delays change nothing in a sample of mixed layouts") { check(20, 1); }
TEST_CASE("[full] random delays change nothing in mixed layouts") { check(100, 3); }

}  // namespace stepper_delay_test
