// Exact layouts on a device whose streams are its own, with a communicator that enqueues on them.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/queued_communicator.hpp"
#include "support/queued_device.hpp"
#include "support/ring_matrix.hpp"

namespace stepper_queued_test {

using test::layout;

/// All ranks on one device of so many threads, whose queues are drawn by `seed`.
test::outcome run_queued(layout const& how, int threads, std::uint64_t seed) {
  queued::device const device(threads, seed);
  return test::run_on(
      how, [&] { return device; },
      [](int ranks, auto const& program) { queued::run(ranks, program); });
}

TEST_CASE("every ZeRO stage and schedule, alone") {
  test::ring_references references;
  std::uint64_t seed = 0;
  auto const check = [&](layout const& how) {
    auto const words = test::text(how);
    CAPTURE(words);
    CHECK(test::difference(run_queued(how, 1, ++seed), references.of(how)) == "");
  };
  check({});
  check({.ranks = 3});
  for (auto const stage : test::all_stages)
    if (stage != test::zero::stage::none) check({.ranks = 2, .stage = stage, .microbatch = 2});
  for (auto const* const schedule :
       {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dual-pipe-v"}) {
    layout how{.microbatch = 2, .pipeline = 2};
    how.schedule.schedule = schedule;
    if (how.schedule.schedule == "interleaved") how.schedule.stages_per_rank = 2;
    how.model.blocks = 4;
    check(how);
  }
}

TEST_CASE("24 mixed layouts equal one rank of the host, in whatever order queues go on") {
  std::vector<layout> all;
  for (auto const& how : test::all_layouts(8, 1))
    if (test::refusal(how).empty()) all.push_back(how);
  test::ring_references references;
  std::uint64_t seed = 0;
  for (auto const& how : test::spread(all, 24)) {
    auto const got = run_queued(how, seed % 2 == 0 ? 1 : 3, seed);
    ++seed;
    CHECK_MESSAGE(test::difference(got, references.of(how)) == "", test::text(how));
  }
}

}  // namespace stepper_queued_test
