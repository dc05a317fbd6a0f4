#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include <mpt/plan/read_cluster.hpp>
#include <mpt/yaml/document.hpp>

namespace read_cluster_test {
namespace {

TEST_CASE("cluster: a name says devices and nodes, and a rate replaces the network's") {
  auto const machines = mpt::read_cluster("h100x8x64");
  CHECK(machines.nodes == 64);
  CHECK(machines.devices() == 512);
  CHECK(machines.device.peak == 989.4e12);
  CHECK(mpt::read_cluster("h100").devices() == 8);
  CHECK(mpt::read_cluster("a100x4").devices() == 4);
  CHECK(mpt::read_cluster("rtx4090x4x2").devices() == 8);
  CHECK(mpt::read_cluster("h100x8x2", mpt::parse_rate("1Gb/s")).links.node_link.rate == 1e9 / 64);
}

TEST_CASE(
    "cluster: all_reduce over 16 nodes of 8 H100 takes what a published table says, within 10 %") {
  auto const machines = mpt::read_cluster("h100x8x16");
  auto const place = machines.place(128, 1);
  // nccl-tests, out of place: bytes and microseconds
  for (auto const& [bytes, microseconds] : {std::pair{8.0, 63.25},
                                            {1048576.0, 122.6},
                                            {67108864.0, 943.5},
                                            {1073741824.0, 6753.0},
                                            {4294967296.0, 23774.0}}) {
    double const seconds =
        machines.links.seconds(parallel::cluster::exchange_kind::all_reduce, bytes, place);
    CHECK(1e6 * seconds == doctest::Approx(microseconds).epsilon(0.1));
  }
}

TEST_CASE(
    "cluster: exchanges in a node of 8 H100 reach the published rates of rings and of switches") {
  using enum parallel::cluster::exchange_kind;
  auto const machines = mpt::read_cluster("h100x8");
  auto const place = machines.place(8, 1);
  auto const rate = [&](parallel::cluster::exchange_kind kind, double rounds) {  // on the bus
    double const bytes = 16e9;
    return rounds * bytes * 7 / 8 / machines.links.seconds(kind, bytes, place);
  };
  CHECK(rate(all_reduce, 2) == doctest::Approx(476e9).epsilon(0.01));
  CHECK(rate(all_gather, 1) == doctest::Approx(368.8e9).epsilon(0.01));
  CHECK(rate(reduce_scatter, 1) == doctest::Approx(368.8e9).epsilon(0.01));
}

TEST_CASE("cluster: a program's costs are factors of an operation's seconds and a gap") {
  auto machines = mpt::read_cluster("h100");
  parallel::cluster::operation_work const copy{.name = "copy", .bytes = 1e9};
  double const seconds = machines.seconds(copy);
  machines.program = {.elements = 2, .gap = 1e-3};
  CHECK(machines.seconds(copy) == doctest::Approx(2 * seconds + 1e-3).epsilon(1e-12));
}

TEST_CASE("cluster: attention over heads of a width that tensor cores cannot read is slow") {
  auto const device = mpt::read_cluster("a100").device;
  auto const seconds = [&](double width) {
    return device.seconds({.name = "attention",
                           .kind = parallel::cluster::operation_kind::attention_forward,
                           .flops = 4 * 1024 * 1e5 * width,
                           .element_bytes = 2,
                           .rows = 1e5,
                           .depth = width});
  };
  CHECK(seconds(108) > 7 * seconds(104));
}

TEST_CASE("cluster: every known device is complete") {
  for (auto const& key : mpt::parse_yaml(mpt::detail::known_clusters, "clusters.yaml").keys) {
    CAPTURE(key.name);
    auto const machines = mpt::read_cluster(key.name);
    CHECK(machines.available_memory() > 0);
    CHECK(machines.device.products.contains(2));
    CHECK(machines.links.node_link.rate > 0);
    // the text for a file reads as the same cluster
    mpt::config_report report;
    auto const file = mpt::parse_yaml(mpt::cluster_file(key.name), "file");
    auto const reread = mpt::read_cluster(mpt::config_reader(file, "", report), key.name);
    CHECK(reread.device.memory == machines.device.memory);
    CHECK(reread.devices() == machines.devices());
    CHECK(reread.disks.shared.load == machines.disks.shared.load);
    CHECK(reread.interruptions.node_days == machines.interruptions.node_days);
  }
}

TEST_CASE("cluster: disks and failures are read, and their defaults fill the rest") {
  mpt::config_report report;
  auto const read = [&](std::string const& lines) {
    auto const file = mpt::parse_yaml(
        mpt::cluster_file("h100").substr(0, mpt::cluster_file("h100").find("storage:")) + lines,
        "file");
    return mpt::read_cluster(mpt::config_reader(file, "", report), "h100");
  };
  auto const machines = read(
      "storage: {node: {save: 1GB/s}, shared: {save: 80Gb/s, load: 5e9}}\n"
      "failures: {node_days: 10, restart: 30}\n");
  CHECK(machines.disks.node.save == 1e9);
  CHECK(machines.disks.node.load == 4e9);
  CHECK(machines.disks.save_seconds(60e9, 4) == 15);  // four nodes of 1 GB/s
  CHECK(machines.disks.save_seconds(60e9, 12) == 6);  // the shared disk's 10 GB/s
  CHECK(machines.disks.load_seconds(60e9, 12) == 12);
  CHECK(machines.interruptions.interval(20) == 43200);
  CHECK(machines.interruptions.start == 60);
  CHECK(std::isinf(read("failures: {node_days: 0}").interruptions.interval(8)));
  CHECK_THROWS_WITH_AS(static_cast<void>(read("failures: {node_days: -1}")),
                       doctest::Contains("failures.node_days: must be at least 0, found -1"),
                       parallel::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(read("storage: {node: {write: 1}}")),
                       doctest::Contains("write"), parallel::error);
}

TEST_CASE("cluster: memory of the host, and memory that is reserved, may be left out") {
  auto text = mpt::cluster_file("h100");
  CHECK(mpt::read_cluster("h100x8x4").host_memory_of_device() == 250'000'000'000);
  for (std::string const line : {"  memory: 2TB\n", "  reserved: 2GB\n"}) {
    REQUIRE(text.find(line) != std::string::npos);
    text.erase(text.find(line), line.size());
  }
  mpt::config_report report;
  auto const file = mpt::parse_yaml(text, "file");
  auto const machines = mpt::read_cluster(mpt::config_reader(file, "", report), "h100");
  CHECK(machines.host_memory_of_device() == 0);
  CHECK(machines.reserved_memory == 0);
}

TEST_CASE("cluster: the names that drivers give to GPUs mean known devices") {
  CHECK(mpt::known_device_in("GPU 0, NVIDIA H100 80GB HBM3") == "h100");
  CHECK(mpt::known_device_in("NVIDIA GeForce RTX 4090") == "rtx4090");
  CHECK(mpt::known_device_in("NVIDIA GB200") == "gb200");
  CHECK(mpt::known_device_in("NVIDIA A100-SXM4-80GB") == "a100");
  CHECK(mpt::known_device_in("a CPU of 2 cores").empty());
}

TEST_CASE("cluster: what cannot be is refused in one sentence") {
  CHECK_THROWS_WITH_AS(static_cast<void>(mpt::read_cluster("h10x8")),
                       "cluster: 'h10' is not known; there are h100, h100-500w, h200, b200, b300, "
                       "gb200, gb300, a100, a100-40gb, "
                       "v100, rtx4090, rtx5060ti, rtxpro6000, mi300x, as in h100x8x64 (64 nodes of "
                       "8); or give a YAML file in "
                       "the "
                       "form of `plan --show-cluster h100`",
                       parallel::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(mpt::read_cluster("h100x8x0")),
                       "cluster: 'h100x8x0' has 0 nodes; it needs at least 1", parallel::error);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(mpt::parse_rate("fast")),
      "'fast' is not a rate; write 400Gb/s (bits), 50GB/s (bytes) or bytes a second",
      parallel::error);
}

TEST_CASE("rates: bits and bytes a second") {
  CHECK(mpt::parse_rate("400Gb/s") == 50e9);
  CHECK(mpt::parse_rate("50GB/s") == 50e9);
  CHECK(mpt::parse_rate("200Mb/s") == 25e6);
  CHECK(mpt::parse_rate("1.2e9") == 1.2e9);
}

}  // namespace
}  // namespace read_cluster_test
