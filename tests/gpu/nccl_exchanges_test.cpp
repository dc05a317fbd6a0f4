// Ranks that are threads of one process exchange their GPUs' memory by NCCL, also in windows. The
// results are exact; sums of floats are within their bound and equal on all ranks.
#include <doctest/doctest.h>


#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/nccl/connect.hpp>
#include <parallel/comm/threads/run.hpp>

#include "support/devices/device_exchanges.hpp"
#include "support/devices/gpu.hpp"

namespace gpu_nccl_exchanges_test {

TEST_CASE("NCCL exchanges: ranks with the GPUs of this machine exchange exactly") {
  if (!test::has_gpu()) return;
  int const gpus = parallel::cuda::device::count();
  if (gpus == 1) {
    MESSAGE("there is one GPU here");
    return;
  }
  CHECK_NOTHROW(parallel::threads::run(gpus, [](parallel::threads::communicator& comm) {
    parallel::any_communicator control(std::move(comm));
    parallel::cuda::device device({.device = control.rank()});
    auto connected = parallel::nccl::connect(control, device);
    parallel::require(connected.has_value(), "GPUs that differ have the same identity");
    test::check_registered_exchanges(*connected, device, 4000003);
  }));
}

}  // namespace gpu_nccl_exchanges_test
