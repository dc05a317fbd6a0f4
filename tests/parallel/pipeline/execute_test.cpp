// The plan of every schedule, executed on threads, gives the bits of a serial loop.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <parallel/comm/faulty.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/core/reduction.hpp>
#include <parallel/pipeline/execute.hpp>
#include <parallel/pipeline/schedules.hpp>

#include "support/ring_pipeline.hpp"

namespace execute_test {
namespace {

using namespace parallel::pipeline;
using test::ring;
using test::ring_problem;
using test::ring_result;
using test::run_rank;

constexpr auto no_pause = [](ring) {};

/// The sum of all ranks' results: each stage's gradients are on one rank and zero on the others.
ring_result sum_of(std::vector<ring_result> const& parts) {
  ring_result sum = parts[0];
  for (std::size_t r = 1; r < parts.size(); ++r) {
    sum.loss += parts[r].loss;
    for (std::size_t s = 0; s < sum.da.size(); ++s)
      for (std::size_t i = 0; i < sum.da[s].size(); ++i) {
        sum.da[s][i] += parts[r].da[s][i];
        sum.db[s][i] += parts[r].db[s][i];
      }
  }
  return sum;
}

template <class Pause>
ring_result run_on_threads(schedule const& s, bool some_empty, Pause pause, int steps = 1) {
  std::vector<ring_result> parts(static_cast<std::size_t>(s.ranks));
  parallel::threads::run(s.ranks, [&](parallel::threads::communicator& comm) {
    parts[static_cast<std::size_t>(comm.rank())] = run_rank(comm, s, some_empty, pause, steps);
  });
  return sum_of(parts);
}

ring_result expected(schedule const& s, bool some_empty) {
  return test::serial({s.stages(), s.microbatches, some_empty, !s.forward_only});
}

std::vector<schedule> samples() {
  return {gpipe(1, 3),
          gpipe(3, 5),
          one_f_one_b(1, 2),
          one_f_one_b(2, 7),
          one_f_one_b(4, 3),
          one_f_one_b(5, 11),
          zb_h1(2, 1),
          zb_h1(4, 9),
          interleaved(1, 4, 3),
          interleaved(2, 4, 3),
          interleaved(3, 6, 2),
          interleaved(4, 8, 4),
          zb_v(1, 2),
          zb_v(2, 5),
          zb_v(4, 10),
          dual_pipe_v(1, 3),
          dual_pipe_v(2, 4),
          dual_pipe_v(4, 11),
          forward_only(1, 2),
          forward_only(4, 9),
          forward_only(3, 7, 2),
          forward_only(3, 8, 2, placement::v)};
}

TEST_CASE("pipeline execution: every schedule gives the bits of a serial loop") {
  for (auto const& s : samples())
    for (bool const some_empty : {false, true}) {
      CAPTURE(std::string(s.name));
      CAPTURE(s.ranks);
      CAPTURE(s.microbatches);
      CAPTURE(some_empty);
      CHECK(run_on_threads(s, some_empty, no_pause) == expected(s, some_empty));
    }
}

// Sleeps in some tasks, different ones on each rank, up to 300 microseconds.
auto shaken(ring seed) {
  return [seed](ring task) {
    ring const random_value = test::noise(seed * 1000 + task);
    if (random_value % 4 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random_value / 4 % 300));
  };
}

TEST_CASE(
    "pipeline execution: delays and several steps over the same links and memory change nothing") {
  constexpr int steps = 3;
  for (auto const& s : samples()) {
    CAPTURE(std::string(s.name));
    CAPTURE(s.ranks);
    CAPTURE(s.microbatches);
    auto want = expected(s, true);
    want.loss *= steps;
    for (auto* gradients : {&want.da, &want.db})
      for (auto& stage_gradients : *gradients)
        for (ring& x : stage_gradients) x *= steps;
    CHECK(run_on_threads(s, true, shaken(static_cast<ring>(s.ranks)), steps) == want);
  }
}

TEST_CASE("[full] pipeline execution: a hundred random orders") {
  for (ring seed = 0; seed < 100; ++seed)
    for (auto const& s : samples()) {
      CAPTURE(std::string(s.name));
      CAPTURE(seed);
      CHECK(run_on_threads(s, seed % 2 == 0, shaken(seed)) == expected(s, seed % 2 == 0));
    }
}

TEST_CASE("pipeline execution: a microbatch without sequences is run but sends nothing") {
  schedule const s = one_f_one_b(2, 5);
  ring_problem const problem{s.stages(), s.microbatches, true};
  std::uint64_t present = 0;
  for (int m = 0; m < s.microbatches; ++m) present += problem.is_empty(m) ? 0 : 1;
  REQUIRE(present > 0);
  REQUIRE(present < 5);
  parallel::threads::run(2, [&](parallel::threads::communicator& inner) {
    parallel::faulty comm(std::move(inner), {});
    plan const rank_plan = lower(s, comm.rank());
    p2p_streams links(comm);
    parallel::host::stream compute;
    std::uint64_t runs = 0;
    test::ring_program program(problem, rank_plan, compute, [&](ring) { ++runs; });
    auto const messages = execute(rank_plan, links, program);
    compute.synchronize();
    CHECK(comm.calls() == 2 * present);
    CHECK(runs == 2 * 5);
  });
}

TEST_CASE("pipeline execution: a single rank needs no messages") {
  for (auto const& s : {gpipe(1, 3), interleaved(1, 3, 4), zb_v(1, 4), dual_pipe_v(1, 5)}) {
    parallel::faulty comm(parallel::single(), {});
    CHECK(run_rank(comm, s, false, no_pause) == expected(s, false));
    CHECK(comm.calls() == 0);
  }
}

/// The result with one call of one rank broken; the number of its calls goes to `calls`.
ring_result run_broken(schedule const& s, int rank, parallel::fault injected,
                       std::uint64_t* calls) {
  std::vector<ring_result> parts(static_cast<std::size_t>(s.ranks));
  parallel::threads::run(s.ranks, [&](parallel::threads::communicator& inner) {
    bool const broken = inner.rank() == rank;
    auto& part = parts[static_cast<std::size_t>(inner.rank())];
    parallel::faulty comm(std::move(inner), broken ? injected : parallel::fault{});
    part = run_rank(comm, s, false, no_pause);
    if (broken && calls != nullptr) *calls = comm.calls();
  });
  return sum_of(parts);
}

TEST_CASE(
    "pipeline execution: every message dropped, doubled or divided at either end changes the "
    "result") {
  int mutants = 0;
  for (auto const& s : {gpipe(2, 3), one_f_one_b(3, 4), interleaved(2, 4, 2), zb_h1(3, 4),
                        zb_v(3, 4), dual_pipe_v(2, 5)}) {
    auto const good = expected(s, false);
    for (int rank = 0; rank < s.ranks; ++rank) {
      std::uint64_t calls = 0;
      CHECK(run_broken(s, rank, {}, &calls) == good);
      for (std::uint64_t k = 0; k < calls; ++k)
        for (auto const kind : {parallel::fault_kind::drop, parallel::fault_kind::twice,
                                parallel::fault_kind::divide}) {
          CAPTURE(std::string(s.name));
          CAPTURE(rank);
          CAPTURE(k);
          CAPTURE(static_cast<int>(kind));
          CHECK_FALSE(run_broken(s, rank, {k, kind}, nullptr) == good);
          ++mutants;
        }
    }
  }
  MESSAGE(mutants << " mutants, all noticed");
  CHECK(mutants > 400);
}

std::string message_of(auto&& run) {
  try {
    run();
  } catch (std::exception const& thrown) {
    return thrown.what();
  }
  return "nothing thrown";
}

TEST_CASE("pipeline execution: the plan of another rank is refused") {
  CHECK(message_of([] {
          parallel::single comm;
          schedule const s = gpipe(2, 3);
          plan const rank_plan = lower(s, 1);
          p2p_streams links(comm);
          parallel::host::stream compute;
          test::ring_program program(ring_problem{2, 3}, rank_plan, compute, no_pause);
          (void)execute(rank_plan, links, program);
        }).find("the plan is rank 1's of 2, but the communicator's rank is 0 of 1") !=
        std::string::npos);
}

TEST_CASE(
    "pipeline execution: a computation that throws on one rank stops all ranks with its reason") {
  // immediately, while the host still enqueues; and later, when the host only waits
  for (auto const wait : {std::chrono::milliseconds(0), std::chrono::milliseconds(50)})
    CHECK(message_of([&] {
            parallel::threads::run(3, [&](parallel::threads::communicator& comm) {
              auto const fails = [&, rank = comm.rank()](ring task) {
                if (rank != 1 || task != 3) return;
                std::this_thread::sleep_for(wait);
                throw parallel::error("no such number");
              };
              (void)run_rank(comm, one_f_one_b(3, 6), false, fails);
            });
          }) == "no such number");
}

}  // namespace
}  // namespace execute_test
