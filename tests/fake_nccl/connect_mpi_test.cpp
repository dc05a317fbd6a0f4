// Ranks that MPI connects are given a communicator of NCCL's, on fake GPUs: every rank is a process
// that mpiexec starts, of two or more, and runs all tests. NCCL's id and failures travel over MPI.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <chrono>
#include <exception>
#include <filesystem>
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
#include "support/device_exchanges.hpp"

namespace fake_nccl_connect_mpi_test {

using parallel::any_communicator;
using parallel::reduction;

// The environment is made in main and handed to the tests here.
parallel::mpi::environment* environment = nullptr;

using rank_program = std::function<void(any_communicator& control, parallel::cuda::device&,
                                        parallel::nccl::communicator&)>;

/// What this rank is told. Whoever fails aborts `control`, as programs do.
std::string told(rank_program const& program) {
  std::unique_ptr<test::temporary_folder> folder;  // where the fake NCCL's processes meet
  parallel::host::stream s;
  any_communicator outer(parallel::mpi::communicator{*environment});
  if (outer.rank() == 0) folder = std::make_unique<test::temporary_folder>();
  auto const met_in = parallel::gather_texts(outer, s, folder ? folder->path().string() : "");
  fake_cuda::restart({.devices = outer.size(), .peers = false});
  fake_nccl::restart({.between_processes = met_in.front()});
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
  CHECK(fake_nccl::alive() == 0);
  outer.barrier(s).wait();  // before the folder goes
  return out;
}

TEST_CASE("ranks that MPI connects keep their numbers, and exchange over NCCL") {
  auto const one = told([](auto& control, auto& device, auto& comm) {
    parallel::require(comm.rank() == control.rank() && comm.size() == environment->size(),
                      "other ranks");
    test::check_device_exchanges<float>(comm, device, 131, test::sum_order::unspecified);
  });
  CHECK(one == "nothing was thrown");
  CHECK(fake_nccl::happened().operations > 0);
  CHECK(fake_nccl::happened().failures.empty());
}

TEST_CASE("a rank that fails beside NCCL ends what others wait for there, with the reason") {
  bool const fails = environment->rank() == 1;
  auto const one = told([&](auto&, auto& device, auto& comm) {
    auto const x = device.template allocate_zeroed<float>(8);
    parallel::cuda::stream s{parallel::comm_options<parallel::nccl::communicator>(device)};
    auto part = comm.split(0, "tensor");
    parallel::require(!fails, "the disk is full");
    part.all_reduce(s, x.span(), reduction::sum).wait();
  });
  CHECK(one == (fails ? "the disk is full" : "rank 1 failed: the disk is full"));
}

}  // namespace fake_nccl_connect_mpi_test

int main(int argc, char** argv) {
  parallel::mpi::environment environment;
  fake_nccl_connect_mpi_test::environment = &environment;
  return doctest::Context(argc, argv).run();
}
