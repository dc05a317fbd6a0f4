#include <doctest/doctest.h>

#include <parallel/cluster/network.hpp>

namespace network_test {
namespace {

using namespace parallel::cluster;

network const without_latency{.device_link = {.rate = 100}, .node_link = {.rate = 10}};

TEST_CASE("time of exchanges: rings send (n - 1) / n of the bytes, twice for a sum on all ranks") {
  group_place const four = place_of_group(4, 1, 8);
  REQUIRE(four.is_on_one_node());
  CHECK(without_latency.seconds(exchange_kind::all_gather, 1000, four) == 7.5);
  CHECK(without_latency.seconds(exchange_kind::reduce_scatter, 1000, four) == 7.5);
  CHECK(without_latency.seconds(exchange_kind::all_reduce, 1000, four) == 15);
  CHECK(without_latency.seconds(exchange_kind::message, 1000, place_of_group(2, 1, 8)) == 10);
  CHECK(without_latency.seconds(exchange_kind::all_reduce, 1000, place_of_group(1, 1, 8)) == 0);
}

TEST_CASE("time of exchanges: all devices of a node send to other nodes at once") {
  // sixteen ranks on two nodes of eight: each ring of nodes has eight connections
  group_place const sixteen = place_of_group(16, 1, 8);
  CHECK(sixteen.ranks_on_node == 8);
  CHECK(without_latency.seconds(exchange_kind::all_gather, 1600, sixteen) == 1500 / 80.0);
  // two ranks that are eight apart have one connection
  group_place const pair = place_of_group(2, 8, 8);
  CHECK(pair.ranks_on_node == 1);
  CHECK(without_latency.seconds(exchange_kind::all_gather, 1600, pair) == 80);
}

TEST_CASE("place of a group: ranks on a node by the distance between them") {
  CHECK(place_of_group(8, 1, 8).nodes() == 1);
  CHECK(place_of_group(8, 2, 8).ranks_on_node == 4);
  CHECK(place_of_group(4, 4, 8).ranks_on_node == 2);
  CHECK(place_of_group(6, 2, 8).ranks_on_node == 3);
  CHECK(place_of_group(64, 8, 8).nodes() == 64);
}

TEST_CASE(
    "time of exchanges: latency counts for every step of a ring, and of a sum on all ranks twice "
    "for every level of a tree") {
  network const only_latency{.device_link = {.latency = 1, .rate = 1e30},
                             .node_link = {.latency = 100, .rate = 1e30}};
  auto const seconds = [&](exchange_kind kind, int ranks) {
    return only_latency.seconds(kind, 1, place_of_group(ranks, 1, 4));
  };
  CHECK(seconds(exchange_kind::all_reduce, 2) == doctest::Approx(2 * 1));
  CHECK(seconds(exchange_kind::all_reduce, 8) == doctest::Approx(2 * 103));
  CHECK(seconds(exchange_kind::all_reduce, 4 * 64) == doctest::Approx(2 * (3 + 1200)));
  // one ring through all ranks: three steps on each node and one to the next
  for (auto const kind : {exchange_kind::all_gather, exchange_kind::reduce_scatter}) {
    CHECK(seconds(kind, 2) == doctest::Approx(1));
    CHECK(seconds(kind, 8) == doctest::Approx(6 + 100));
    CHECK(seconds(kind, 4 * 64) == doctest::Approx(192 + 6300));
  }
}

}  // namespace
}  // namespace network_test
