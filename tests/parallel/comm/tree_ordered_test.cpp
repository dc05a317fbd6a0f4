#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/detail/combine.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/comm/tree_accumulator.hpp>
#include <parallel/comm/tree_ordered.hpp>

#include "parallel/comm/suite.hpp"
#include "parallel/comm/tree.hpp"

namespace tree_ordered_test {

using namespace parallel;
using test::comm_suite::values;

TEST_CASE("tree_ordered: sums over 1 to 9 ranks have the bits of the serial aligned tree") {
  CHECK_NOTHROW(test::comm_tree::check_tree(single()));
  for (int const n : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    CAPTURE(n);
    CHECK_NOTHROW(threads::run(
        n, [](threads::communicator& comm) { test::comm_tree::check_tree(std::move(comm)); }));
  }
}

TEST_CASE("tree_ordered: two ranks sum in rank order, and calls that do not sum are passed on") {
  CHECK_NOTHROW(threads::run(2, [](threads::communicator& comm) {
    tree_ordered ordered{checked{any_communicator{std::move(comm)}}};
    test::comm_suite::check_all(ordered, 1000);
  }));
}

/// The sum of `leaves` leaves on `ranks` ranks, as rank 0 has it: with `tree`, by a tree on each
/// rank and then over the ranks; else in order on each rank and then in rank order.
template <class T>
std::vector<T> sum_of_leaves(int ranks, std::size_t leaves, std::size_t count, bool tree) {
  std::vector<T> out;
  threads::run(ranks, [&](threads::communicator& plain) {
    bool const is_first = plain.rank() == 0;
    auto const own_leaves = leaves / static_cast<std::size_t>(plain.size());
    auto const leaf = [&, begin = own_leaves * static_cast<std::size_t>(plain.rank())](
                          std::size_t i) { return values<T>(static_cast<int>(begin + i), count); };
    auto const add = [](std::vector<T>& sum, std::vector<T> const& addend) {
      void* const outs[] = {sum.data()};
      void const* const in[] = {sum.data(), addend.data()};
      detail::combine(dtype_of<T>, reduction::sum, outs, in, sum.size());
    };
    host::stream s;
    std::vector<T> x;
    if (tree) {
      tree_accumulator<std::vector<T>, decltype(add)> accumulator(add);
      for (std::size_t i = 0; i < own_leaves; ++i) accumulator.push(i, leaf(i));
      x = accumulator.finish();
      tree_ordered ordered(std::move(plain));
      ordered.all_reduce(s, std::span(x), reduction::sum).wait();
    } else {
      x = leaf(0);
      for (std::size_t i = 1; i < own_leaves; ++i) add(x, leaf(i));
      plain.all_reduce(s, std::span(x), reduction::sum).wait();
    }
    if (is_first) out = std::move(x);
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

TEST_CASE(
    "tree_ordered: the bits of a sum of leaves do not depend on the number of ranks that hold "
    "them") {
  check_partitions<float>(8, {1, 2, 4, 8});
  check_partitions<bf16>(8, {1, 2, 4, 8});
  check_partitions<double>(16, {1, 2, 4, 8});
  check_partitions<float>(12, {1, 3, 6, 12});
  check_partitions<bf16>(12, {1, 3, 6, 12});
}

TEST_CASE("tree_ordered: ranks of which only some sum by the tree get an error") {
  std::vector<std::string> messages(2);
  threads::run(2, [&](threads::communicator& comm) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    any_communicator any(std::move(comm));
    host::stream s;
    std::vector<float> x(3);
    messages[rank] = test::comm_suite::message_of([&] {
      if (rank == 0)
        any.all_reduce(s, std::span(x), reduction::sum).wait();
      else
        tree_ordered(std::move(any)).all_reduce(s, std::span(x), reduction::sum).wait();
    });
  });
  for (auto const& message : messages) {
    CHECK(message.find("ranks disagree in reduction") != std::string::npos);
    CHECK(message.find("rank 1: all_reduce(tree_sum) of 3 f32 at ") != std::string::npos);
  }
}

}  // namespace tree_ordered_test
