#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include <mpt/train/setup/preflight.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>

namespace preflight_test {

using namespace parallel;
using mpt::describe;

TEST_CASE("preflight: every rank's device and the network are measured") {
  threads::run(2, [](threads::communicator& comm) {
    any_communicator any(std::move(comm));
    host::device device;
    auto const measurements = mpt::preflight<float>(device, any, any, "here");
    CHECK(measurements.machines == std::vector<std::string>{"here", "here"});
    CHECK(measurements.wrong_elements == 0);
    CHECK(measurements.inside_machine > 0);
    for (double const rate : measurements.work) CHECK(rate > 1e6);
  });
}

/// Measurements of a network without problems.
network_measurements good() {
  return {.machines = {"a", "a", "b", "b"},
          .work = {10, 10, 10, 9},
          .inside_machine = 100e9,
          .between_machines = 90e9,
          .arrival_rates = {90e9, 91e9, 90e9, 89e9},
          .copy_rate = 200e9,
          .wrong_elements = 0,
          .link = {"mlx5_0", 100e9, true}};
}

/// The lines after the first, as one text.
std::string remarks(network_measurements const& measurements) {
  std::string text;
  auto const lines = describe(measurements);
  for (std::size_t i = 1; i < lines.size(); ++i) text += lines[i] + "\n";
  return text;
}

TEST_CASE("preflight: rates and advice have a line each") {
  CHECK(describe(good()).front() ==
        "network: 4 ranks on 2 machines, 100 GB/s inside, 90.0 GB/s between");
  CHECK(remarks(good()) ==
        "advice: between is about as fast as inside: shard weights over all ranks\n");
  auto m = good();
  m.between_machines = 25e9;
  CHECK(remarks(m).find("inside is 4.0 times as fast") != std::string::npos);
  CHECK(remarks(m).find("HYBRID_SHARD") != std::string::npos);
  m = good();
  m.machines = {"a", "a", "a", "a"};
  m.between_machines = 0;
  CHECK(describe(m) == std::vector<std::string>{"network: 4 ranks on 1 machine, 100 GB/s inside"});
}

TEST_CASE("preflight: slow machines and ranks and wrong numbers are named") {
  auto m = good();
  m.between_machines = 1.2e9;
  CHECK(remarks(m).find("slow: machines exchange at 1.20 GB/s, 1.2 % of what mlx5_0 "
                        "(InfiniBand or RoCE, 100 GB/s) can; do they use it?") !=
        std::string::npos);
  m = good();
  m.inside_machine = 1e9;
  CHECK(remarks(m).find("is shared memory switched off") != std::string::npos);
  m = good();
  m.work[2] = 6;
  CHECK(remarks(m).find("slow: rank 2 on b computes at 60 % of the usual rate") !=
        std::string::npos);
  m = good();
  m.wrong_elements = 7;
  CHECK(remarks(m).find("wrong: 7 numbers") != std::string::npos);
}

TEST_CASE("preflight: rates have three digits and a fitting unit") {
  using mpt::detail::rate_text;
  CHECK(rate_text(0) == "0.00 B/s");
  CHECK(rate_text(118.4e3) == "118 kB/s");
  CHECK(rate_text(4.806e6) == "4.81 MB/s");
  CHECK(rate_text(99.97e6) == "100 MB/s");
  CHECK(rate_text(999.6e6) == "1.00 GB/s");
  CHECK(rate_text(12.34e9) == "12.3 GB/s");
  CHECK(rate_text(5e15) == "5000 TB/s");
}

TEST_CASE("preflight: a rank that exchanges slowly between machines is named") {
  auto m = good();
  m.machines = {"a", "b", "c"};
  m.work = {10, 10, 10};
  m.inside_machine = 0;
  m.link = {};
  m.between_machines = 4.7e6;
  m.arrival_rates = {4.8e6, 117e6, 4.9e6};
  CHECK(describe(m) ==
        std::vector<std::string>{
            "network: 3 ranks on 3 machines, 4.70 MB/s between",
            "slow: machines exchange at 4.70 MB/s, less than half of what Gigabit Ethernet carries",
            "slow: rank 2 (host c) exchanges with other machines at 4.90 MB/s, the others at "
            "117 MB/s"});
  m.between_machines = 60e6;
  m.arrival_rates = {117e6, 116e6, 20e6};
  CHECK(remarks(m) ==
        "slow: rank 1 (host b) sends to rank 2 (host c) at 20.0 MB/s, the others at 117 MB/s\n");
  m.arrival_rates = {117e6, 116e6, 115e6};
  CHECK(remarks(m).empty());
}

TEST_CASE("preflight: of two slow ranks, the pair is named") {
  network_measurements m;
  m.machines = {"a", "b"};
  m.between_machines = 120e3;
  m.arrival_rates = {121e3, 122e3};
  CHECK(remarks(m) ==
        "slow: rank 0 (host a) and rank 1 (host b) exchange at 120 kB/s, less than half of what "
        "Gigabit Ethernet carries\n");
}

TEST_CASE("preflight: of many slow ranks, the first are named") {
  network_measurements m;
  for (int rank = 0; rank < 40; ++rank) {
    m.machines.push_back("m" + std::to_string(rank));
    m.work.push_back(1);
    m.arrival_rates.push_back(rank < 25 ? 1e9 : 1e6);
  }
  m.between_machines = 1e9;
  auto const lines = describe(m);
  CHECK(lines.size() == 10);
  CHECK(lines.back() == "slow: and 6 more ranks of 40");
}

}  // namespace preflight_test
