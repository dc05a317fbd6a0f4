#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include <mpt/train/preflight.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>

namespace preflight_test {

using namespace parallel;
using mpt::describe;

TEST_CASE("every rank's device and the network are measured") {
  threads::run(2, [](threads::communicator& comm) {
    any_communicator any(std::move(comm));
    host::device device;
    auto const said = mpt::preflight<float>(device, any, any, "here");
    CHECK(said.machines == std::vector<std::string>{"here", "here"});
    CHECK(said.wrong == 0);
    CHECK(said.inside > 0);
    for (double const rate : said.work) CHECK(rate > 1e6);
  });
}

/// A network with nothing to remark upon.
network_measurements good() {
  return {.machines = {"a", "a", "b", "b"},
          .work = {10, 10, 10, 9},
          .inside = 100e9,
          .between = 90e9,
          .copying = 200e9,
          .wrong = 0,
          .link = {"mlx5_0", 100e9, true}};
}

/// The lines after the first, as one text.
std::string remarks(network_measurements const& m) {
  std::string all;
  auto const lines = describe(m);
  for (std::size_t i = 1; i < lines.size(); ++i) all += lines[i] + "\n";
  return all;
}

TEST_CASE("rates and advice are said in a line each") {
  CHECK(describe(good()).front() ==
        "network: 4 ranks on 2 machines, 100.00 GB/s inside, 90.00 GB/s between");
  CHECK(remarks(good()) ==
        "advice: between is about as fast as inside: shard weights over all ranks\n");
  auto m = good();
  m.between = 25e9;
  CHECK(remarks(m).find("inside is 4.0 times as fast") != std::string::npos);
  CHECK(remarks(m).find("HYBRID_SHARD") != std::string::npos);
  m = good();
  m.machines = {"a", "a", "a", "a"};
  m.between = 0;
  CHECK(describe(m) ==
        std::vector<std::string>{"network: 4 ranks on 1 machine, 100.00 GB/s inside"});
}

TEST_CASE("what is slow or wrong is named") {
  auto m = good();
  m.between = 1.2e9;
  CHECK(remarks(m).find("slow: machines exchange at 1 % of what mlx5_0 (InfiniBand or RoCE, "
                        "100.00 GB/s) can; do they use it?") != std::string::npos);
  m = good();
  m.inside = 1e9;
  CHECK(remarks(m).find("is shared memory switched off") != std::string::npos);
  m = good();
  m.work[2] = 6;
  CHECK(remarks(m).find("slow: rank 2 on b computes at 60 % of the usual rate") !=
        std::string::npos);
  m = good();
  m.wrong = 7;
  CHECK(remarks(m).find("wrong: 7 numbers") != std::string::npos);
}

}  // namespace preflight_test
