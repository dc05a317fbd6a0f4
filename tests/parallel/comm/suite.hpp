// The laws of communicators, as the tests call them.
#pragma once

#include <chrono>

#include <parallel/comm/threads/run.hpp>
#include <parallel/conformance/communicator.hpp>
#include <parallel/conformance/failures.hpp>
#include <parallel/core/shared_deadline.hpp>
#include <parallel/device/host/stream.hpp>

namespace test {

namespace comm_suite = parallel::conformance;

/// threads::run with a deadline that holds from when all threads run: on a busy machine starting
/// them may take longer.
template <class Program>
void run_with_deadline(int ranks, std::chrono::milliseconds time, Program program) {
  parallel::shared_deadline const deadline = std::chrono::seconds(10);
  parallel::threads::run(ranks,
                         [&](parallel::threads::communicator& comm) {
                           {
                             parallel::host::stream s;
                             comm.barrier(s).wait();
                           }
                           deadline.set(time);
                           program(comm);
                         },
                         {.deadline = deadline});
}

}  // namespace test
