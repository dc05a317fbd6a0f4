#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/local/node_map.hpp>
#include <parallel/support/files.hpp>

namespace node_map_test {
using parallel::checkpoint::node_map;
using names = std::vector<std::string>;

TEST_CASE("node map: nodes are numbered by their first ranks, for any order of ranks") {
  node_map const nodes(names{"x", "y", "x", "z", "y", "x"});
  CHECK(nodes.ranks() == 6);
  CHECK(nodes.nodes() == 3);
  std::vector<int> node_numbers;
  for (int rank = 0; rank < 6; ++rank) node_numbers.push_back(nodes.node_of(rank));
  CHECK(node_numbers == std::vector{0, 1, 0, 2, 1, 0});
  CHECK(nodes.ranks_of(0) == std::vector{0, 2, 5});
  CHECK(nodes.ranks_of(1) == std::vector{1, 4});
  CHECK(nodes.is_first(0));
  CHECK(nodes.is_first(1));
  CHECK_FALSE(nodes.is_first(2));
  CHECK(nodes.is_first(3));
}

TEST_CASE(
    "node map: every rank sends its copies to the next node, and senders and receivers agree") {
  for (auto const& by_rank :
       {names{"a", "a", "b", "b"}, names{"a", "b", "c"}, names{"a", "a", "a", "b"},
        names{"a", "b", "b", "b", "c", "c"}, names{"a", "b", "a", "b"}}) {
    node_map const nodes(by_rank);
    int sender_count = 0;
    for (int rank = 0; rank < nodes.ranks(); ++rank) {
      CHECK(nodes.node_of(nodes.receiver_of(rank)) == (nodes.node_of(rank) + 1) % nodes.nodes());
      for (int const sender : nodes.senders_to(rank)) {
        CHECK(nodes.receiver_of(sender) == rank);
        ++sender_count;
      }
    }
    CHECK(sender_count == nodes.ranks());
  }
  // The work of a smaller node is divided evenly over its ranks.
  node_map const uneven(names{"a", "a", "a", "a", "b", "b"});
  CHECK(uneven.senders_to(4) == std::vector{0, 2});
  CHECK(uneven.senders_to(5) == std::vector{1, 3});
  CHECK(uneven.senders_to(2).empty());
}

TEST_CASE("node map: a single node is its own neighbour; without ranks there is no map") {
  node_map const one(3);
  CHECK(one.nodes() == 1);
  CHECK(one.receiver_of(2) == 2);
  CHECK(test::contains(test::message_of([] { node_map(0); }), "expected at least one rank"));
}

}  // namespace node_map_test
