// The conformance checks of communicators, under the names that the tests use.
#pragma once

#include <chrono>

#include <parallel/comm/threads/run.hpp>
#include <parallel/conformance/communicator.hpp>
#include <parallel/conformance/failures.hpp>
#include <parallel/core/patience.hpp>
#include <parallel/device/host/stream.hpp>

namespace test {

namespace comm_suite = parallel::conformance;

/// Calls threads::run with a deadline that begins when all threads run, since starting them on a
/// busy machine may take longer than `time`.
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
