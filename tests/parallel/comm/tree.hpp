// Sums by an aligned binary tree: the serial reference, and the check of communicators against it.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <parallel/comm/concepts.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>

#include "parallel/comm/suite.hpp"

namespace test::comm_tree {

namespace host = parallel::host;
using parallel::reduction;

/// The elementwise sum a + b, rounded to T.
template <class T>
std::vector<T> plus(std::vector<T> const& a, std::vector<T> const& b) {
  using wide = parallel::accumulate_t<T>;
  std::vector<T> out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto const sum = static_cast<wide>(static_cast<wide>(a[i]) + static_cast<wide>(b[i]));
    out[i] = static_cast<T>(sum);
  }
  return out;
}

/// Sums `nodes` level by level: neighbours are added in pairs, and an odd last node moves up
/// unchanged.
template <class T>
std::vector<T> tree_sum(std::vector<std::vector<T>> nodes) {
  while (nodes.size() > 1) {
    std::vector<std::vector<T>> parents;
    for (std::size_t i = 0; i < nodes.size(); i += 2)
      parents.push_back(i + 1 < nodes.size() ? plus(nodes[i], nodes[i + 1]) : nodes[i]);
    nodes = std::move(parents);
  }
  return nodes.front();
}

template <class T>
bool same_bits(std::span<T const> a, std::span<T const> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// The serial tree sum over `ranks` ranks of the values that test::comm_suite gives them.
template <class T>
std::vector<T> expected_sum(int ranks, std::size_t count) {
  std::vector<std::vector<T>> leaves;
  for (int r = 0; r < ranks; ++r) leaves.push_back(comm_suite::values<T>(r, count));
  return tree_sum(std::move(leaves));
}

/// Compares all_reduce and reduce_scatter by a tree with the serial tree; throws `error` at a wrong
/// bit.
template <class T, class C>
void check_sums(C& comm) {
  host::stream s;
  auto const n = static_cast<std::size_t>(comm.size());
  auto const own_rank = static_cast<std::size_t>(comm.rank());
  for (std::size_t const count : {std::size_t{1}, std::size_t{13}, std::size_t{2077}}) {
    auto x = comm_suite::values<T>(comm.rank(), count);
    comm.all_reduce(s, std::span<T>(x), reduction::tree_sum).wait();
    comm_suite::require_equal(x, expected_sum<T>(comm.size(), count), "tree all_reduce",
                              comm.rank());

    auto const whole = comm_suite::values<T>(comm.rank(), n * count);
    auto const sums = expected_sum<T>(comm.size(), n * count);
    std::vector<T> shard(count);
    comm.reduce_scatter(s, std::span<T>(shard), whole, reduction::tree_sum).wait();
    auto const own_shard = std::span<T const>(sums).subspan(own_rank * count, count);
    comm_suite::require_equal(shard, std::vector<T>(own_shard.begin(), own_shard.end()),
                              "tree reduce_scatter", comm.rank());
  }
}

template <class Comm>
void check_tree(Comm comm) {
  check_sums<float>(comm);
  check_sums<parallel::bf16>(comm);
  check_sums<double>(comm);
  check_sums<std::uint64_t>(comm);
  auto group = comm.split(comm.rank() % 2, "shard");
  check_sums<float>(group);
}

}  // namespace test::comm_tree
