#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>

#include <parallel/pipeline/schedules.hpp>
#include <parallel/pipeline/simulate.hpp>

namespace simulate_test {

using namespace parallel::pipeline;
using enum action_kind;

std::string verdict(schedule const& s) {
  try {
    check(s);
  } catch (parallel::error const& thrown) {
    return thrown.what();
  }
  return "good";
}

std::string const begin = "schedule 1f1b of 3 ranks and 4 microbatches: on rank ";

TEST_CASE("schedule check: each kind of flaw is found and named") {
  auto const good = one_f_one_b(3, 4);
  REQUIRE(verdict(good) == "good");
  auto bad = good;
  bad.by_rank[1].push_back({forward, 1, 2});
  CHECK(verdict(bad) == begin + "1 action 1F2 comes twice");
  bad = good;
  bad.by_rank[1].push_back({forward, 2, 2});
  CHECK(verdict(bad) == begin + "1 action 2F2 is not this rank's stage or microbatch");
  bad = good;
  bad.by_rank[2].push_back({forward, 2, 4});
  CHECK(verdict(bad) == begin + "2 action 2F4 is not this rank's stage or microbatch");
  bad = good;
  std::swap(bad.by_rank[2][0], bad.by_rank[2][1]);
  CHECK(verdict(bad) == begin + "2 action 2B0 comes before what it needs on the same rank");
  bad = good;
  bad.by_rank[0].pop_back();
  CHECK(verdict(bad) == begin + "0 action 0I3 never comes");
  bad = good;
  bad.by_rank[0].back().kind = backward_input;
  CHECK(verdict(bad) == begin + "0 action 0W3 never comes");
}

TEST_CASE("schedule check: ranks that wait for each other are a deadlock") {
  // rank 0 needs the gradient of microbatch 0 before it sends microbatch 1, rank 1 the reverse
  schedule crossed = gpipe(2, 2);
  crossed.by_rank[0] = {{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}};
  crossed.by_rank[1] = {{forward, 1, 0}, {forward, 1, 1}, {backward, 1, 0}, {backward, 1, 1}};
  CHECK(verdict(crossed) ==
        "schedule gpipe of 2 ranks and 2 microbatches: on rank 0 action 0B0 waits for ever");
}

TEST_CASE(
    "schedule check: a swap of two neighbouring actions is found or leaves a schedule that "
    "completes") {
  // Any swap is either found or leaves a schedule that still runs to its end.
  auto const good = one_f_one_b(4, 6);
  int found = 0;
  for (std::size_t rank = 0; rank < good.by_rank.size(); ++rank)
    for (std::size_t i = 0; i + 1 < good.by_rank[rank].size(); ++i) {
      auto swapped = good;
      std::swap(swapped.by_rank[rank][i], swapped.by_rank[rank][i + 1]);
      auto const time = simulate(swapped);
      if (!time.is_good()) ++found;
      if (time.is_good()) CHECK(time.makespan >= simulate(good).makespan);
    }
  CHECK(found > 0);
}

TEST_CASE("schedule simulation: transfers and unequal costs lengthen the makespan as expected") {
  CHECK(simulate(one_f_one_b(1, 5), {.transfer = 7}).makespan == 15);
  // the first microbatch passes through p-1 transfers in each direction
  CHECK(simulate(gpipe(3, 1), {.transfer = 2}).makespan == 3 * 3 + 2 * 2 * 2);
  CHECK(simulate(zb_h1(4, 8), {.forward = 2, .backward_input = 2, .backward_weight = 2}).makespan ==
        2 * 27);
}

}  // namespace simulate_test
