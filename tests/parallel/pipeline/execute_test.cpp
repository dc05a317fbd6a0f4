// Every schedule's plan, executed on threads, gives the bits of one serial loop.
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

/// All ranks' results together: each stage's gradients are on one rank, zero elsewhere.
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
ring_result run_on_threads(schedule const& of, bool some_empty, Pause pause, int steps = 1) {
  std::vector<ring_result> parts(static_cast<std::size_t>(of.ranks));
  parallel::threads::run(of.ranks, [&](parallel::threads::communicator& comm) {
    parts[static_cast<std::size_t>(comm.rank())] = run_rank(comm, of, some_empty, pause, steps);
  });
  return sum_of(parts);
}

ring_result expected(schedule const& of, bool some_empty) {
  return test::serial({of.stages(), of.microbatches, some_empty, !of.forward_only});
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

TEST_CASE("every schedule gives the bits of one serial loop") {
  for (auto const& of : samples())
    for (bool const some_empty : {false, true}) {
      CAPTURE(std::string(of.name));
      CAPTURE(of.ranks);
      CAPTURE(of.microbatches);
      CAPTURE(some_empty);
      CHECK(run_on_threads(of, some_empty, no_pause) == expected(of, some_empty));
    }
}

// Sleeps in some tasks, other ones on each rank, up to 300 microseconds.
auto shaken(ring seed) {
  return [seed](ring task) {
    ring const how = test::noise(seed * 1000 + task);
    if (how % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(how / 4 % 300));
  };
}

TEST_CASE("delays change nothing, and neither do several steps over the same links and memory") {
  constexpr int steps = 3;
  for (auto const& of : samples()) {
    CAPTURE(std::string(of.name));
    CAPTURE(of.ranks);
    CAPTURE(of.microbatches);
    auto want = expected(of, true);
    want.loss *= steps;
    for (auto* gradients : {&want.da, &want.db})
      for (auto& of_stage : *gradients)
        for (ring& x : of_stage) x *= steps;
    CHECK(run_on_threads(of, true, shaken(static_cast<ring>(of.ranks)), steps) == want);
  }
}

TEST_CASE("[full] a hundred random orders") {
  for (ring seed = 0; seed < 100; ++seed)
    for (auto const& of : samples()) {
      CAPTURE(std::string(of.name));
      CAPTURE(seed);
      CHECK(run_on_threads(of, seed % 2 == 0, shaken(seed)) == expected(of, seed % 2 == 0));
    }
}

TEST_CASE("a microbatch that nobody has a sequence for sends nothing, but is run") {
  schedule const of = one_f_one_b(2, 5);
  ring_problem const problem{of.stages(), of.microbatches, true};
  std::uint64_t present = 0;
  for (int m = 0; m < of.microbatches; ++m) present += problem.is_empty(m) ? 0 : 1;
  REQUIRE(present > 0);
  REQUIRE(present < 5);
  parallel::threads::run(2, [&](parallel::threads::communicator& own) {
    parallel::faulty comm(std::move(own), {});
    plan const how = lower(of, comm.rank());
    p2p_streams over(comm);
    parallel::host::stream compute;
    std::uint64_t runs = 0;
    test::ring_program program(problem, how, compute, [&](ring) { ++runs; });
    auto const messages = execute(how, over, program);
    compute.synchronize();
    CHECK(comm.calls() == 2 * present);
    CHECK(runs == 2 * 5);
  });
}

TEST_CASE("a rank alone needs no messages") {
  for (auto const& of : {gpipe(1, 3), interleaved(1, 3, 4), zb_v(1, 4), dual_pipe_v(1, 5)}) {
    parallel::faulty comm(parallel::single(), {});
    CHECK(run_rank(comm, of, false, no_pause) == expected(of, false));
    CHECK(comm.calls() == 0);
  }
}

/// The result with one call of one rank broken, or the error that it gave.
ring_result run_broken(schedule const& of, int rank, parallel::fault what, std::uint64_t* calls) {
  std::vector<ring_result> parts(static_cast<std::size_t>(of.ranks));
  parallel::threads::run(of.ranks, [&](parallel::threads::communicator& own) {
    bool const broken = own.rank() == rank;
    auto& part = parts[static_cast<std::size_t>(own.rank())];
    parallel::faulty comm(std::move(own), broken ? what : parallel::fault{});
    part = run_rank(comm, of, false, no_pause);
    if (broken && calls != nullptr) *calls = comm.calls();
  });
  return sum_of(parts);
}

TEST_CASE("every message dropped, doubled or divided is noticed, at either end") {
  int mutants = 0;
  for (auto const& of : {gpipe(2, 3), one_f_one_b(3, 4), interleaved(2, 4, 2), zb_h1(3, 4),
                         zb_v(3, 4), dual_pipe_v(2, 5)}) {
    auto const good = expected(of, false);
    for (int rank = 0; rank < of.ranks; ++rank) {
      std::uint64_t calls = 0;
      CHECK(run_broken(of, rank, {}, &calls) == good);
      for (std::uint64_t k = 0; k < calls; ++k)
        for (auto const kind : {parallel::fault_kind::drop, parallel::fault_kind::twice,
                                parallel::fault_kind::divide}) {
          CAPTURE(std::string(of.name));
          CAPTURE(rank);
          CAPTURE(k);
          CAPTURE(static_cast<int>(kind));
          CHECK_FALSE(run_broken(of, rank, {k, kind}, nullptr) == good);
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

TEST_CASE("another rank's plan is refused") {
  CHECK(message_of([] {
          parallel::single comm;
          schedule const of = gpipe(2, 3);
          plan const own = lower(of, 1);
          p2p_streams over(comm);
          parallel::host::stream compute;
          test::ring_program program(ring_problem{2, 3}, own, compute, no_pause);
          (void)execute(own, over, program);
        }).find("the plan is rank 1's of 2, but the communicator's rank is 0 of 1") !=
        std::string::npos);
}

TEST_CASE("a computation that throws on one rank stops all with its reason") {
  // at once, while the host still enqueues; and when it has long returned and only waits
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
