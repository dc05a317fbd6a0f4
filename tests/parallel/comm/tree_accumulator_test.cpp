#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include <parallel/comm/tree_accumulator.hpp>

#include "parallel/comm/suite.hpp"
#include "parallel/comm/tree.hpp"

namespace tree_accumulator_test {

using namespace parallel;
using test::comm_suite::message_of;
using test::comm_suite::values;

TEST_CASE("leaves one after another give the bits of the serial aligned tree, twice over") {
  using leaf = std::vector<float>;
  auto const add = [](leaf& into, leaf const& from) { into = test::comm_tree::plus(into, from); };
  tree_accumulator<leaf, decltype(add)> sum(add);
  for (std::size_t count = 1; count <= 20; ++count)
    for (int const round : {0, 1}) {
      CAPTURE(count);
      std::vector<leaf> all;
      std::size_t made = 0;
      for (std::size_t i = 0; i < count; ++i) {
        all.push_back(values<float>(static_cast<int>(i) + 100 * round, 37));
        auto spare = sum.take_spare();
        if (!spare) ++made;
        leaf buffer = spare ? std::move(*spare) : leaf();
        buffer = all.back();
        sum.push(i, std::move(buffer));
      }
      auto const found = sum.finish();
      CHECK(test::comm_tree::same_bits<float>(found, test::comm_tree::tree_of(all)));
      CHECK(made <= sum.buffers_for(count));
    }
}

TEST_CASE("the shape of the tree, and as many buffers as stated") {
  auto const join = [](std::string& into, std::string const& from) {
    into = "(" + into + from + ")";
  };
  auto const shape = [&](std::size_t leaves, std::size_t& made) {
    tree_accumulator<std::string, decltype(join)> sum(join);
    made = 0;
    for (std::size_t i = 0; i < leaves; ++i) {
      if (!sum.take_spare()) ++made;
      sum.push(i, std::string(1, static_cast<char>('a' + i)));
    }
    return sum.finish();
  };
  std::size_t made = 0;
  CHECK(shape(1, made) == "a");
  CHECK(made == 1);
  CHECK(shape(3, made) == "((ab)c)");
  CHECK(made == 2);
  CHECK(shape(5, made) == "(((ab)(cd))e)");
  CHECK(made == 3);
  CHECK(shape(6, made) == "(((ab)(cd))(ef))");
  CHECK(shape(7, made) == "(((ab)(cd))((ef)g))");
  CHECK(shape(13, made) == "((((ab)(cd))((ef)(gh)))(((ij)(kl))m))");
  for (std::size_t n = 1; n <= 26; ++n) {
    CAPTURE(n);
    (void)shape(n, made);
    CHECK(made == tree_accumulator<std::string, decltype(join)>::buffers_for(n));
  }
}

TEST_CASE("leaves out of order, and none, are refused") {
  auto const add = [](int& into, int const& from) { into += from; };
  tree_accumulator<int, decltype(add)> sum(add);
  CHECK(message_of([&] { (void)sum.finish(); }) == "tree_accumulator: there is no leaf to sum");
  sum.push(0, 1);
  CHECK(message_of([&] { sum.push(2, 1); }) ==
        "tree_accumulator: leaf 2 came, expected leaf 1; leaves are combined in the order of their "
        "numbers");
}

}  // namespace tree_accumulator_test
