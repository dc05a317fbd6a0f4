// Ranks that are threads of one process exchange the memory of GPUs exactly: of one GPU that they
// share, and of a GPU for each rank, with peer access where the machine has it.
#include <doctest/doctest.h>

#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/comm/threads/run.hpp>

#include "support/devices/device_exchanges.hpp"
#include "support/devices/gpu.hpp"

namespace gpu_exchanges_test {

TEST_CASE("exchanges on a GPU: 1 to 8 ranks that share one GPU exchange exactly") {
  if (!test::has_gpu()) return;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    CAPTURE(ranks);
    CHECK_NOTHROW(parallel::threads::run(ranks, [](parallel::threads::communicator& comm) {
      parallel::cuda::device const device;
      test::check_all_device_exchanges(comm, device);
    }));
  }
}

TEST_CASE("exchanges on GPUs: ranks with the GPUs of this machine exchange exactly") {
  if (!test::has_gpu()) return;
  int const gpus = parallel::cuda::device::count();
  if (gpus == 1) {
    MESSAGE("there is one GPU here");
    return;
  }
  CHECK_NOTHROW(parallel::threads::run(gpus, [](parallel::threads::communicator& comm) {
    parallel::cuda::device const device({.device = comm.rank()});
    test::check_all_device_exchanges(comm, device);
  }));
}

}  // namespace gpu_exchanges_test
