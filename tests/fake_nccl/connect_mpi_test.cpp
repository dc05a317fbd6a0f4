// nccl::connect for ranks that MPI connects, on fake GPUs: mpiexec starts a process for each of two
// or more ranks, and every process runs all tests. NCCL's id and failures travel over MPI.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/mpi/communicator.hpp>
#include <parallel/comm/nccl/connect.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/conformance/values.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/fake_nccl.hpp"
#include "parallel/support/files.hpp"
#include "support/devices/device_exchanges.hpp"

namespace fake_nccl_connect_mpi_test {

using parallel::any_communicator;
using parallel::reduction;

// MPI's environment, which main makes for the tests.
parallel::mpi::environment* environment = nullptr;

using rank_program = std::function<void(any_communicator& control, parallel::cuda::device&,
                                        parallel::nccl::communicator&)>;

/// The message of this rank's exception. A rank that fails aborts `control`, as programs do.
std::string message_of_rank(rank_program const& program) {
  std::unique_ptr<test::temporary_folder> folder;  // where the fake NCCL's processes meet
  parallel::host::stream s;
  any_communicator outer(parallel::mpi::communicator{*environment});
  if (outer.rank() == 0) folder = std::make_unique<test::temporary_folder>();
  auto const folders = parallel::gather_texts(outer, s, folder ? folder->path().string() : "");
  fake_cuda::restart({.devices = outer.size(), .peers = false});
  fake_nccl::restart({.process_folder = folders.front()});
  auto const out = parallel::conformance::message_of([&] {
    any_communicator control(parallel::checked(
        parallel::mpi::communicator(*environment, {.deadline = std::chrono::seconds(20)})));
    parallel::cuda::device device({.device = control.rank()});
    auto comm =
        parallel::nccl::connect(control, device, {.deadline = std::chrono::seconds(20)}).value();
    try {
      program(control, device, comm);
    } catch (std::exception const& problem) {
      control.abort(problem.what());
      throw;
    }
  });
  CHECK(fake_nccl::live_communicators() == 0);
  outer.barrier(s).wait();  // before rank 0 removes the folder
  return out;
}

TEST_CASE("nccl::connect over MPI: ranks keep their numbers and can exchange") {
  auto const message = message_of_rank([](auto& control, auto& device, auto& comm) {
    parallel::require(comm.rank() == control.rank() && comm.size() == environment->size(),
                      "other ranks");
    test::check_device_exchanges<float>(comm, device, 131, test::sum_order::unspecified);
  });
  CHECK(message == "nothing was thrown");
  CHECK(fake_nccl::history().operations > 0);
  CHECK(fake_nccl::history().failures.empty());
}

TEST_CASE("nccl::connect over MPI: a failure outside NCCL ends waits in NCCL, with the reason") {
  bool const fails = environment->rank() == 1;
  auto const message = message_of_rank([&](auto&, auto& device, auto& comm) {
    auto const x = device.template allocate_zeroed<float>(8);
    parallel::cuda::stream s{parallel::comm_options<parallel::nccl::communicator>(device)};
    auto part = comm.split(0, "tensor");
    parallel::require(!fails, "the disk is full");
    part.all_reduce(s, x.span(), reduction::sum).wait();
  });
  CHECK(message == (fails ? "the disk is full" : "rank 1 failed: the disk is full"));
}

}  // namespace fake_nccl_connect_mpi_test

int main(int argc, char** argv) {
  parallel::mpi::environment environment;
  fake_nccl_connect_mpi_test::environment = &environment;
  return doctest::Context(argc, argv).run();
}
