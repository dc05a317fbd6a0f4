#include <algorithm>

#include <doctest/doctest.h>

#include <parallel/cluster/link_bytes.hpp>

namespace link_bytes_test {
namespace {

using namespace parallel::cluster;

TEST_CASE("link bytes: a ring over two nodes of four, and one within a node") {
  auto const wide = place_of_group(8, 1, 4), narrow = place_of_group(4, 1, 4);
  auto const sum = exchange_bytes(exchange_kind::all_reduce, 800, wide);
  CHECK(sum.in_node == 2 * 700);
  CHECK(sum.to_nodes == 2 * 700 / 4.0);
  CHECK(exchange_bytes(exchange_kind::all_gather, 800, narrow).in_node == 600);
  CHECK(exchange_bytes(exchange_kind::all_gather, 800, narrow).to_nodes == 0);
  CHECK(exchange_bytes(exchange_kind::all_gather, 800, place_of_group(2, 4, 4)).in_node == 0);
  CHECK(exchange_bytes(exchange_kind::all_gather, 800, place_of_group(2, 4, 4)).to_nodes == 400);
  CHECK(exchange_bytes(exchange_kind::message, 800, place_of_group(2, 4, 4)).to_nodes == 800);
  CHECK(exchange_bytes(exchange_kind::all_to_all, 800, wide).to_nodes == 400);
  CHECK(exchange_bytes(exchange_kind::all_reduce, 800, place_of_group(1, 1, 4)).in_node == 0);
}

TEST_CASE("link bytes: over links without latency they take the seconds of the network") {
  network const links{.device_link = {.rate = 100}, .node_link = {.rate = 7}};
  for (auto const kind : {exchange_kind::all_gather, exchange_kind::reduce_scatter,
                          exchange_kind::all_reduce, exchange_kind::message})
    for (int const ranks : {2, 4, 8, 32})
      for (int const stride : {1, 2, 4}) {
        CAPTURE(ranks);
        CAPTURE(stride);
        auto const place = place_of_group(ranks, stride, 4);
        auto const sent = exchange_bytes(kind, 1e6, place);
        CHECK(links.seconds(kind, 1e6, place) ==
              doctest::Approx(std::max(sent.in_node / 100, sent.to_nodes / 7)));
      }
}

}  // namespace
}  // namespace link_bytes_test
