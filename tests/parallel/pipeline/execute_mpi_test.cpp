// Part of test_mpi: pipelines of 1 to 4 processes.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/mpi/communicator.hpp>
#include <parallel/core/reduction.hpp>
#include <parallel/pipeline/schedules.hpp>

#include "support/ring_pipeline.hpp"

namespace mpi_test {
extern parallel::mpi::environment* environment;  // comm/mpi_test.cpp
}

namespace execute_mpi_test {

using namespace parallel::pipeline;
using test::ring;

TEST_CASE("pipeline over MPI: every schedule gives the bits of a serial loop") {
  parallel::any_communicator comm{parallel::mpi::communicator(*mpi_test::environment)};
  int const p = comm.size();
  for (auto const& s : {gpipe(p, 3), one_f_one_b(p, 2 * p + 1), interleaved(p, 2 * p, 3),
                        zb_h1(p, p + 2), zb_v(p, p + 3), dual_pipe_v(p, 2 * p + 1),
                        forward_only(p, 5), forward_only(p, 6, 2, placement::v)})
    for (bool const some_empty : {false, true}) {
      auto const shaken = [seed = static_cast<ring>(comm.rank())](ring task) {
        std::this_thread::sleep_for(std::chrono::microseconds(test::noise(seed * 99 + task) % 300));
      };
      auto sums = test::run_rank(comm, s, some_empty, shaken, 2);
      parallel::host::stream exchanges;
      comm.all_reduce(exchanges, std::span(&sums.loss, 1), parallel::reduction::sum).wait();
      for (auto* gradients : {&sums.da, &sums.db})
        for (auto& stage_gradients : *gradients)
          comm.all_reduce(exchanges, std::span(stage_gradients), parallel::reduction::sum).wait();
      auto want = test::serial({s.stages(), s.microbatches, some_empty, !s.forward_only});
      want.loss *= 2;
      for (auto* gradients : {&want.da, &want.db})
        for (auto& stage_gradients : *gradients)
          for (ring& x : stage_gradients) x *= 2;
      CAPTURE(std::string(s.name));
      CAPTURE(some_empty);
      CHECK(sums == want);
    }
}

}  // namespace execute_mpi_test
