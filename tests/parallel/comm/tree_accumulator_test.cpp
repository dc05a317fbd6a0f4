#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/comm/detail/combine.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/comm/threads/run.hpp>
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

TEST_CASE("tree_sum: sums over 1 to 9 ranks have the bits of the serial aligned tree") {
  CHECK_NOTHROW(test::comm_tree::check_tree(single()));
  for (int const n : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    CAPTURE(n);
    CHECK_NOTHROW(threads::run(
        n, [](threads::communicator& comm) { test::comm_tree::check_tree(std::move(comm)); }));
  }
}

/// The sum of `leaves` leaves on `ranks` ranks, as rank 0 has it: with `tree`, by a tree on each
/// rank and then over the ranks; else in order on each rank and then in rank order.
template <class T>
std::vector<T> sum_of_leaves(int ranks, std::size_t leaves, std::size_t count, bool tree) {
  std::vector<T> out;
  threads::run(ranks, [&](threads::communicator& comm) {
    auto const own_leaves = leaves / static_cast<std::size_t>(comm.size());
    auto const leaf = [&, begin = own_leaves * static_cast<std::size_t>(comm.rank())](
                          std::size_t i) { return values<T>(static_cast<int>(begin + i), count); };
    auto const add = [](std::vector<T>& sum, std::vector<T> const& addend) {
      void* const outs[] = {sum.data()};
      void const* const in[] = {sum.data(), addend.data()};
      detail::combine(dtype_of<T>, reduction::sum, outs, in, sum.size());
    };
    std::vector<T> x = leaf(0);
    if (tree) {
      tree_accumulator<std::vector<T>, decltype(add)> accumulator(add);
      for (std::size_t i = 0; i < own_leaves; ++i) accumulator.push(i, leaf(i));
      x = accumulator.finish();
    } else {
      for (std::size_t i = 1; i < own_leaves; ++i) add(x, leaf(i));
    }
    host::stream s;
    comm.all_reduce(s, std::span(x), tree ? reduction::tree_sum : reduction::sum).wait();
    if (comm.rank() == 0) out = std::move(x);
  });
  return out;
}

template <class T>
void check_partitions(std::size_t leaves, std::vector<int> const& ranks) {
  constexpr std::size_t count = 1500;
  std::vector<std::vector<T>> values_of_leaves;
  for (std::size_t i = 0; i < leaves; ++i)
    values_of_leaves.push_back(values<T>(static_cast<int>(i), count));
  auto const expected = test::comm_tree::tree_sum(std::move(values_of_leaves));
  for (int const n : ranks) {
    CAPTURE(leaves);
    CAPTURE(n);
    auto const by_tree = sum_of_leaves<T>(n, leaves, count, true);
    CHECK(test::comm_tree::same_bits<T>(by_tree, expected));
    // In rank order the bits depend on the number of ranks, which shows that this test can fail.
    auto const in_order = sum_of_leaves<T>(n, leaves, count, false);
    bool const is_exact = std::is_same_v<T, double>;  // the values have few digits
    CHECK(test::comm_tree::same_bits<T>(in_order, expected) == is_exact);
  }
}

TEST_CASE("tree_sum: the bits of a sum of leaves do not depend on the number of ranks") {
  check_partitions<float>(8, {1, 2, 4, 8});
  check_partitions<bf16>(8, {1, 2, 4, 8});
  check_partitions<double>(16, {1, 2, 4, 8});
  check_partitions<float>(12, {1, 3, 6, 12});
  check_partitions<bf16>(12, {1, 3, 6, 12});
}

}  // namespace tree_accumulator_test
