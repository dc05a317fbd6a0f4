// Tests of the nearest name: distances by hand, and when nothing is offered.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/yaml/nearest.hpp>

namespace nearest_test {

TEST_CASE("edit distance: counts insertions, deletions, substitutions and swaps") {
  CHECK(mpt::edit_distance("", "abc") == 3);
  CHECK(mpt::edit_distance("abc", "abc") == 0);
  CHECK(mpt::edit_distance("n_head", "n_heads") == 1);
  CHECK(mpt::edit_distance("loacl", "local") == 1);
  CHECK(mpt::edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("nearest name: shares at least half of the letters, or none is offered") {
  std::vector<std::string> const names{"lr", "eps", "betas", "weight_decay"};
  CHECK(mpt::nearest_name("weight_deacy", names) == "weight_decay");
  CHECK(mpt::nearest_name("beta", names) == "betas");
  CHECK(mpt::nearest_name("ls", names) == "lr");
  CHECK(mpt::nearest_name("momentum", names).empty());
  CHECK(mpt::nearest_name(std::string(10'000, 'a'), names).empty());
  CHECK(mpt::nearest_name("x", {}).empty());
}

}  // namespace nearest_test
