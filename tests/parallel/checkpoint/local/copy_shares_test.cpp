#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/local/copy_shares.hpp>

namespace copy_shares_test {
using parallel::checkpoint::copy_shares;
using parallel::checkpoint::node_map;
using ranks = std::vector<std::optional<int>>;

node_map const& two_nodes_of_two() {
  static node_map const nodes(std::vector<std::string>{"a", "a", "b", "b"});
  return nodes;
}

TEST_CASE(
    "copy shares: files are divided by bytes over the nodes that have them, then over their "
    "ranks") {
  // Files 0 to 3 are on both nodes, file 4 on the second only.
  copy_shares const shares(two_nodes_of_two(),
                           {{true, true, true, true, false}, {true, true, true, true, true}},
                           {100, 30, 30, 30, 7});
  std::vector<std::size_t> const files{0, 1, 2, 3, 4};
  CHECK(shares.share_out(files) == ranks{0, 2, 3, 2, 3});
  std::vector<std::size_t> const some_files{4, 1};
  CHECK(shares.share_out(some_files) == ranks{2, 0});
}

TEST_CASE("copy shares: a damaged file is taken from another node, until none has it") {
  copy_shares shares(two_nodes_of_two(), {{true, true}, {true, false}}, {5, 5});
  std::vector<std::size_t> const files{0, 1};
  CHECK(shares.share_out(files) == ranks{0, 1});
  shares.mark_damaged(1, 0);  // any rank of the node may report it
  CHECK(shares.share_out(files) == ranks{2, 0});
  shares.mark_damaged(2, 0);
  CHECK(shares.share_out(files) == ranks{std::nullopt, 0});
  shares.mark_damaged(0, 1);
  CHECK(shares.share_out(files) == ranks{std::nullopt, std::nullopt});
}

}  // namespace copy_shares_test
