// Every schedule's plan, executed on threads, gives the bits of one serial loop.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <parallel/comm/faulty.hpp>
#include <parallel/comm/reduction.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/pipeline/execute.hpp>
#include <parallel/pipeline/schedules.hpp>

#include "support/ring_pipeline.hpp"

namespace execute_test {
namespace {

using namespace parallel::pipeline;
using test::ring;
using test::ring_problem;
using test::ring_result;

constexpr auto no_pause = [](ring) {};

/// `steps` runs of the rank's plan; the sums of all.
template <class Comm, class Pause>
ring_result run_rank(Comm& comm, schedule const& of, bool some_empty, Pause pause, int steps = 1) {
  ring_problem const problem{of.stages(), of.microbatches, some_empty, !of.forward_only};
  plan const own = lower(of, comm.rank());
  links<Comm> over(comm);
  parallel::host::stream compute;
  test::ring_program program(problem, own, compute, pause);
  for (int i = 0; i < steps; ++i) execute(own, over, program);
  compute.synchronize();
  return program.sums();
}

/// All ranks' results together: each stage's gradients are on one rank, zero elsewhere.
template <class Pause>
ring_result run_on_threads(schedule const& of, bool some_empty, Pause pause, int steps = 1) {
  std::vector<ring_result> parts(static_cast<std::size_t>(of.ranks));
  parallel::threads::run(of.ranks, [&](parallel::threads::communicator& comm) {
    parts[static_cast<std::size_t>(comm.rank())] = run_rank(comm, of, some_empty, pause, steps);
  });
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

}  // namespace
}  // namespace execute_test
