// Models that several GPUs hold together, for evaluation and for saving, over the control
// communicator and over NCCL.
#include "support/laws/replica_laws.hpp"

#include <utility>

#include <parallel/comm/nccl/connect.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/fake_nccl.hpp"

namespace fake_nccl_replicas_test {

/// Checks replicas of `tensor` ranks each on `gpu_count` fake GPUs, one rank on each.
void check(int gpu_count, int tensor, bool over_nccl) {
  fake_cuda::restart({.devices = gpu_count, .peers = false, .seed = 5});
  fake_nccl::restart();
  for (auto const encoding : test::position_encodings)
    fake_cuda::ranks_on(gpu_count)(gpu_count, [&](parallel::threads::communicator& comm) {
      parallel::any_communicator control(std::move(comm));
      auto device = fake_cuda::current_gpu();
      auto const config = test::small_config(encoding);
      if (!over_nccl) return test::check_replica(config, control, control, device, tensor);
      parallel::nccl::any_communicator gpus(parallel::nccl::connect(control, device).value());
      test::check_replica(config, control, gpus, device, tensor);
    });
  CHECK(fake_cuda::history().failures.empty());
  CHECK(fake_nccl::history().failures.empty());
  CHECK(fake_nccl::history().exchanged.empty() == !over_nccl);
  CHECK(fake_nccl::live_communicators() == 0);
}

TEST_CASE(
    "replicas on fake GPUs: exchanges through the host's memory give the results of one rank") {
  check(4, 2, false);
}

TEST_CASE("replicas on fake GPUs: exchanges over NCCL give the results of one rank") {
  check(2, 2, true);
  check(3, 3, true);
  check(4, 2, true);
}

}  // namespace fake_nccl_replicas_test
