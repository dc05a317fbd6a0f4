// The text of a cluster reads as the same cluster.
#include <doctest/doctest.h>

#include <tuple>

#include <mpt/plan/read_cluster.hpp>
#include <mpt/plan/write_cluster.hpp>
#include <mpt/yaml/document.hpp>

namespace write_cluster_test {
namespace {

namespace cluster = parallel::cluster;

TEST_CASE("cluster text: a cluster that is written and read is written equally again") {
  cluster::cluster machines{.nodes = 3, .devices_on_node = 2, .jitter = 0.02, .price = 2.5};
  machines.device = {
      .memory = 1'234'567'890, .peak = 8e10, .memory_rate = 3e10, .gap = 1e-6, .host_rate = 20e9};
  machines.device.products[4] =
      cluster::product_rates(2e11, 1, {{{512, 384, 1536}, 1.5e11}, {{1, 2, 3}, 1e9}});
  machines.device.attention[4][64] = {cluster::rate_curve(1e11),
                                      cluster::rate_curve({{128.5, 9e10}, {16779780, 8e10}})};
  machines.device.operations["layer_norm"] =
      cluster::rate_curve({{16779776, 2e10}, {16779780, 3e10}});
  machines.links.device_link = {
      .latency = 5e-5, .rate = 4e9, .sum_rate = 5e9, .processor_share = 0.75};
  machines.links.node_link = {
      .latency = 1e-4, .rate = 1e8, .efficiency = cluster::rate_curve({{1024, 0.5}, {1e6, 1}})};
  machines.reserved_memory = 200'000'000;
  machines.host_memory = 64'000'000'000;
  machines.interruptions.node_days = 100;
  auto const text = mpt::cluster_text(machines);
  mpt::config_report report;
  auto const document = mpt::parse_yaml(text, "machine.yaml");
  auto const reread = mpt::read_cluster(mpt::config_reader(document, "", report), "machine.yaml");
  CHECK(mpt::cluster_text(reread) == text);
  CHECK(reread.devices() == 6);
  auto const facts_of = [](cluster::cluster const& c) {
    auto const& link = c.links.device_link;
    return std::tuple(c.reserved_memory, c.host_memory, c.price, c.jitter, link.sum_rate,
                      link.processor_share, c.links.node_link.rate, c.interruptions.node_days);
  };
  CHECK(facts_of(reread) == facts_of(machines));
  CHECK(reread.device.operations.at("layer_norm").points().size() == 2);
}

}  // namespace
}  // namespace write_cluster_test
