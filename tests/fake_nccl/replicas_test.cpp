// Models that several GPUs hold together, to evaluate and to write: by what connects the ranks, and
// by NCCL beside it.
#include "support/replica_laws.hpp"

#include <utility>

#include <parallel/comm/nccl/connect.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/fake_nccl.hpp"

namespace fake_nccl_replicas_test {

void check(int number, int tensor, bool by_nccl) {
  fake_cuda::restart({.devices = number, .peers = false, .seed = 5});
  fake_nccl::restart();
  for (int which = 0; which < 3; ++which)
    fake_cuda::ranks_on(number)(number, [&](parallel::threads::communicator& comm) {
      parallel::any_communicator control(std::move(comm));
      auto device = fake_cuda::current_gpu();
      auto const form = test::small_form(which);
      if (!by_nccl) return test::check_replica(form, control, control, device, tensor);
      parallel::nccl::any_communicator gpus(parallel::nccl::connect(control, device).value());
      test::check_replica(form, control, gpus, device, tensor);
    });
  CHECK(fake_cuda::happened().failures.empty());
  CHECK(fake_nccl::happened().failures.empty());
  CHECK(fake_nccl::happened().exchanged.empty() == !by_nccl);
  CHECK(fake_nccl::alive() == 0);
}

TEST_CASE("through the host's memory") { check(4, 2, false); }

TEST_CASE("over NCCL") {
  check(2, 2, true);
  check(3, 3, true);
  check(4, 2, true);
}

}  // namespace fake_nccl_replicas_test
