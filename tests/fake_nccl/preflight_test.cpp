// The check of a network before a run, over NCCL beside what connects the ranks.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/comm/nccl/connect.hpp>
#include <parallel/comm/network_check.hpp>
#include <parallel/comm/threads/run.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/fake_nccl.hpp"

namespace fake_nccl_preflight_test {

using parallel::any_communicator;
using parallel::network_measurements;

/// What each rank is told, on the given machines: of what connects them, and of NCCL.
std::vector<std::pair<network_measurements, network_measurements>> measured(
    std::vector<std::string> const& machines, fake_nccl::fault fault = fake_nccl::fault::none) {
  int const ranks = static_cast<int>(machines.size());
  fake_cuda::restart({.devices = ranks, .peers = false});
  fake_nccl::restart({.patience = std::chrono::seconds(5), .fault = fault});
  std::vector<std::pair<network_measurements, network_measurements>> out(machines.size());
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    any_communicator control(std::move(comm));
    auto const rank = static_cast<std::size_t>(control.rank());
    parallel::cuda::device device({.device = control.rank()});
    parallel::nccl::any_communicator gpus(parallel::nccl::connect(control, device).value());
    auto const check = [&](auto& over) {
      return parallel::check_network(device, control, over, machines[rank], 1, {}, 3 << 12);
    };
    auto host = check(control);
    auto nccl = check(gpus);
    out[rank] = {std::move(host), std::move(nccl)};
  });
  CHECK(fake_nccl::alive() == 0);
  return out;
}

TEST_CASE("rates inside machines and between them are those of NCCL, and nothing is wrong") {
  for (auto const& said : measured({"a", "b", "a", "b"})) {
    auto const& [host, nccl] = said;
    CHECK(nccl.machines == std::vector<std::string>{"a", "b", "a", "b"});
    CHECK(nccl.work == std::vector<double>(4, 1));
    CHECK(nccl.inside_machine > 0);
    CHECK(nccl.between_machines > 0);
    CHECK(nccl.inside_machine != host.inside_machine);
    for (double const rate : nccl.arrival_rates) CHECK(rate > 0);
    CHECK(nccl.wrong_elements == 0);
    CHECK(host.wrong_elements == 0);
  }
  CHECK(fake_nccl::happened().failures.empty());
  auto const exchanged = fake_nccl::happened().exchanged.at("ncclAllGather of i32");
  CHECK(exchanged.bytes > 100'000);
}

TEST_CASE("what NCCL changes is counted there alone, the same on all ranks") {
  auto const all = measured({"a", "a", "a"}, fake_nccl::fault::wrong_count);
  CHECK(all.front().second.wrong_elements > 0);
  for (auto const& said : all) {
    CHECK(said.first.wrong_elements == 0);
    CHECK(said.second.wrong_elements == all.front().second.wrong_elements);
    CHECK(said.second.inside_machine > 0);
  }
}

}  // namespace fake_nccl_preflight_test
