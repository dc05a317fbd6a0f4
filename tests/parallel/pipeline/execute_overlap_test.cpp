// The order of events, not timing, shows that messages overlap with computation: one of the two is
// held until the other has reached a given point. Without overlap the test would wait for ever.
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <string>

#include <parallel/comm/threads/run.hpp>
#include <parallel/pipeline/schedules.hpp>

#include "support/ring_pipeline.hpp"
#include "support/trace.hpp"

namespace execute_overlap_test {
namespace {

using namespace std::chrono_literals;
using namespace parallel::pipeline;

/// One run of two ranks. On `rank`, task(log, n) is called in the n-th computation, message(log, k)
/// before the k-th message, and check(log) at the end.
void run(schedule const& s, int rank, std::function<void(test::trace&, int)> const& task,
         std::function<void(test::trace&, int)> const& message,
         std::function<void(test::trace&)> const& check) {
  parallel::threads::run(2, [&](parallel::threads::communicator& inner) {
    test::trace log;
    bool const watched = inner.rank() == rank;
    test::delayed comm(std::move(inner), log, [&](int k) {
      if (watched) message(log, k);
    });
    auto const sums = test::run_rank(comm, s, false, [&](test::ring n) {
      log.add("task " + std::to_string(n));
      if (watched) task(log, static_cast<int>(n));
    });
    CHECK_FALSE(sums.da.empty());
    if (watched) check(log);
  });
}

TEST_CASE(
    "pipeline execution: the next activation is received while the one before it is computed") {
  // rank 1: receives 0 and 1 (two boundary buffers), F0, B0, sends the gradient of 0, ...
  run(
      one_f_one_b(2, 4), 1,
      [](test::trace& log, int n) {
        if (n == 0) CHECK(log.await("collective 1 ends", 60s));
      },
      [](test::trace&, int) {},
      [](test::trace& log) { CHECK(log.in_order("collective 1 ends", "task 1")); });
}

TEST_CASE(
    "pipeline execution: the next forward pass begins before the last activation has been sent") {
  // rank 0: F0, sends it (message 0), F1, ...
  run(
      gpipe(2, 3), 0, [](test::trace&, int) {},
      [](test::trace& log, int k) {
        if (k == 0) CHECK(log.await("task 1", 60s));
      },
      [](test::trace& log) { CHECK(log.in_order("task 1", "collective 0 ends")); });
}

TEST_CASE(
    "pipeline execution: a slot is reused before the gradient of its last microbatch has been "
    "sent") {
  // rank 1 has one slot: F0, B0, sends the gradient of 0 (message 2), F1
  plan const rank_plan = lower(one_f_one_b(2, 4), 1);
  REQUIRE(rank_plan.chunks[0].slots == 1);
  run(
      one_f_one_b(2, 4), 1, [](test::trace&, int) {},
      [](test::trace& log, int k) {
        if (k == 2) CHECK(log.await("task 2", 60s));
      },
      [](test::trace& log) { CHECK(log.in_order("task 2", "collective 2 ends")); });
}

TEST_CASE("pipeline execution: weight gradients are computed while the input gradient is sent") {
  // rank 1 computes F0, I0, F1, I1, W0; message 3, after three receives, is the gradient of 0
  run(
      zb_h1(2, 4), 1, [](test::trace&, int) {},
      [](test::trace& log, int k) {
        if (k == 3) CHECK(log.await("task 4", 60s));
      },
      [](test::trace& log) { CHECK(log.in_order("task 4", "collective 3 ends")); });
}

}  // namespace
}  // namespace execute_overlap_test
