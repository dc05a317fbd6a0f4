// The check of a network before a run, over the control communicator and over NCCL.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/cuda/comm_stream.hpp>
#include <parallel/comm/nccl/connect.hpp>
#include <parallel/comm/network/network_check.hpp>
#include <parallel/comm/threads/run.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/fake_nccl.hpp"

namespace fake_nccl_preflight_test {

using parallel::any_communicator;
using parallel::network_measurements;

/// The measurements of each rank, which runs on the given machine: of the control communicator, and
/// of NCCL.
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
    auto const check = [&](auto& communicator) {
      return parallel::check_network(device, control, communicator, machines[rank], 1, {}, 3 << 12);
    };
    auto host = check(control);
    auto nccl = check(gpus);
    out[rank] = {std::move(host), std::move(nccl)};
  });
  CHECK(fake_nccl::live_communicators() == 0);
  return out;
}

TEST_CASE("network check over NCCL: measures NCCL's rates and finds no wrong elements") {
  for (auto const& measurement : measured({"a", "b", "a", "b"})) {
    auto const& [host, nccl] = measurement;
    CHECK(nccl.machines == std::vector<std::string>{"a", "b", "a", "b"});
    CHECK(nccl.work == std::vector<double>(4, 1));
    CHECK(nccl.inside_machine > 0);
    CHECK(nccl.between_machines > 0);
    CHECK(nccl.inside_machine != host.inside_machine);
    for (double const rate : nccl.arrival_rates) CHECK(rate > 0);
    CHECK(nccl.wrong_elements == 0);
    CHECK(host.wrong_elements == 0);
  }
  CHECK(fake_nccl::history().failures.empty());
  auto const exchanged = fake_nccl::history().exchanged.at("ncclAllGather of i32");
  CHECK(exchanged.bytes > 100'000);
}

TEST_CASE("network check over NCCL: wrong elements are counted for NCCL alone, on all ranks") {
  auto const results = measured({"a", "a", "a"}, fake_nccl::fault::wrong_count);
  CHECK(results.front().second.wrong_elements > 0);
  for (auto const& measurement : results) {
    CHECK(measurement.first.wrong_elements == 0);
    CHECK(measurement.second.wrong_elements == results.front().second.wrong_elements);
    CHECK(measurement.second.inside_machine > 0);
  }
}

}  // namespace fake_nccl_preflight_test
