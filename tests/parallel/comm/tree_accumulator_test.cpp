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

TEST_CASE(
    "tree_accumulator: leaves pushed in order have the bits of the serial tree, also on reuse") {
  using leaf = std::vector<float>;
  auto const add = [](leaf& sum, leaf const& addend) { sum = test::comm_tree::plus(sum, addend); };
  tree_accumulator<leaf, decltype(add)> accumulator(add);
  for (std::size_t count = 1; count <= 20; ++count)
    for (int const round : {0, 1}) {
      CAPTURE(count);
      std::vector<leaf> leaves;
      std::size_t buffer_count = 0;
      for (std::size_t i = 0; i < count; ++i) {
        leaves.push_back(values<float>(static_cast<int>(i) + 100 * round, 37));
        auto spare = accumulator.take_spare();
        if (!spare) ++buffer_count;
        leaf buffer = spare ? std::move(*spare) : leaf();
        buffer = leaves.back();
        accumulator.push(i, std::move(buffer));
      }
      auto const sum = accumulator.finish();
      CHECK(test::comm_tree::same_bits<float>(sum, test::comm_tree::tree_sum(leaves)));
      CHECK(buffer_count <= accumulator.buffers_for(count));
    }
}

TEST_CASE(
    "tree_accumulator: the tree has the aligned shape and takes the stated number of buffers") {
  auto const concatenate = [](std::string& text, std::string const& suffix) {
    text = "(" + text + suffix + ")";
  };
  auto const shape = [&](std::size_t leaves, std::size_t& buffer_count) {
    tree_accumulator<std::string, decltype(concatenate)> accumulator(concatenate);
    buffer_count = 0;
    for (std::size_t i = 0; i < leaves; ++i) {
      if (!accumulator.take_spare()) ++buffer_count;
      accumulator.push(i, std::string(1, static_cast<char>('a' + i)));
    }
    return accumulator.finish();
  };
  std::size_t buffer_count = 0;
  CHECK(shape(1, buffer_count) == "a");
  CHECK(buffer_count == 1);
  CHECK(shape(3, buffer_count) == "((ab)c)");
  CHECK(buffer_count == 2);
  CHECK(shape(5, buffer_count) == "(((ab)(cd))e)");
  CHECK(buffer_count == 3);
  CHECK(shape(6, buffer_count) == "(((ab)(cd))(ef))");
  CHECK(shape(7, buffer_count) == "(((ab)(cd))((ef)g))");
  CHECK(shape(13, buffer_count) == "((((ab)(cd))((ef)(gh)))(((ij)(kl))m))");
  for (std::size_t n = 1; n <= 26; ++n) {
    CAPTURE(n);
    (void)shape(n, buffer_count);
    CHECK(buffer_count == tree_accumulator<std::string, decltype(concatenate)>::buffers_for(n));
  }
}

TEST_CASE("tree_accumulator: leaves out of order and a sum without leaves are refused") {
  auto const add = [](int& total, int const& addend) { total += addend; };
  tree_accumulator<int, decltype(add)> accumulator(add);
  CHECK(message_of([&] { (void)accumulator.finish(); }) ==
        "tree_accumulator: there is no leaf to sum");
  accumulator.push(0, 1);
  CHECK(message_of([&] { accumulator.push(2, 1); }) ==
        "tree_accumulator: leaf 2 came, expected leaf 1; leaves are combined in the order of their "
        "numbers");
}

}  // namespace tree_accumulator_test
