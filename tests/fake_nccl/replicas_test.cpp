// Models that several GPUs hold together, for evaluation and for saving, over the control
// communicator and over NCCL.
#include "support/laws/replica_laws.hpp"

#include <utility>

#include <parallel/comm/nccl/connect.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/fake_nccl.hpp"

namespace fake_nccl_replicas_test {

void check(int number, int tensor, bool over_nccl) {
  fake_cuda::restart({.devices = number, .peers = false, .seed = 5});
  fake_nccl::restart();
  for (int form_number = 0; form_number < 3; ++form_number)
    fake_cuda::ranks_on(number)(number, [&](parallel::threads::communicator& comm) {
      parallel::any_communicator control(std::move(comm));
      auto device = fake_cuda::current_gpu();
      auto const form = test::small_form(form_number);
      if (!over_nccl) return test::check_replica(form, control, control, device, tensor);
      parallel::nccl::any_communicator gpus(parallel::nccl::connect(control, device).value());
      test::check_replica(form, control, gpus, device, tensor);
    });
  CHECK(fake_cuda::history().failures.empty());
  CHECK(fake_nccl::history().failures.empty());
  CHECK(fake_nccl::history().exchanged.empty() == !over_nccl);
  CHECK(fake_nccl::live_communicators() == 0);
}

TEST_CASE("replicas on fake GPUs: through the host's memory") { check(4, 2, false); }

TEST_CASE("replicas on fake GPUs: over NCCL") {
  check(2, 2, true);
  check(3, 3, true);
  check(4, 2, true);
}

}  // namespace fake_nccl_replicas_test
