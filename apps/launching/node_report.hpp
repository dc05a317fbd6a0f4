// node_report: what a node is going to run, and in what two nodes differ.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace apps {

/// What a node is going to do, as it says itself.
struct node_report {
  int node = 0;
  int nodes = 1;
  int ranks = 1;  // of this node
  int restarts = 0;
  int spares = 0;    // nodes beyond those, numbered after them, that take the places of others
  int least = 1;     // nodes with which the run goes on
  int multiple = 1;  // of which the number of nodes is one
  std::string host = {};
  std::string program = {};                       // its path
  std::string program_hash = {};                  // and of what it holds
  std::vector<std::string> arguments = {};        // of the program
  std::map<std::string, std::string> files = {};  // named by arguments: hashes of what they hold
  double clock = 0;                               // seconds, beyond those of the folder's clock
};

/// What machines may differ in their clocks, in seconds.
inline constexpr double clocks_may_differ = 30;

[[nodiscard]] inline std::string name_of(node_report const& one) {
  return fmt::format("node {} ({})", one.node, one.host);
}

/// In what two nodes differ.
[[nodiscard]] inline std::string difference_of(node_report const& first, node_report const& other) {
  auto const numbers = [&](char const* what, int a, int b) {
    return fmt::format("{} has {} {}, {} {}; start all with the same", name_of(other), what, b,
                       name_of(first), a);
  };
  if (first.nodes != other.nodes) return numbers("--nodes", first.nodes, other.nodes);
  if (first.ranks != other.ranks) return numbers("-n", first.ranks, other.ranks);
  if (first.restarts != other.restarts)
    return numbers("--restarts", first.restarts, other.restarts);
  if (first.spares != other.spares) return numbers("--spares", first.spares, other.spares);
  if (first.least != other.least) return numbers("--least", first.least, other.least);
  if (first.multiple != other.multiple)
    return numbers("--multiple", first.multiple, other.multiple);
  if (first.program_hash != other.program_hash)
    return fmt::format(
        "{} runs another program than {}: {} is not the same file as {}; install "
        "one build on all nodes",
        name_of(other), name_of(first), other.program, first.program);
  auto const said = [](node_report const& one, std::size_t i) {
    return i < one.arguments.size() ? "'" + one.arguments[i] + "'" : std::string("nothing");
  };
  for (std::size_t i = 0; i < std::max(first.arguments.size(), other.arguments.size()); ++i)
    if (said(first, i) != said(other, i))
      return fmt::format(
          "{} runs the program with other arguments than {}: {}, not {}; start all "
          "with the same",
          name_of(other), name_of(first), said(other, i), said(first, i));
  for (auto const& [file, hash] : first.files) {
    auto const there = other.files.find(file);
    if (there == other.files.end() || there->second != hash)
      return fmt::format("{} has another {} than {}; give all nodes the same configuration",
                         name_of(other), file, name_of(first));
  }
  double const ahead = other.clock - first.clock;
  if (std::abs(ahead) > clocks_may_differ)
    return fmt::format(
        "the clock of {} is {:.0f} s {} that of {}; set the machines' clocks "
        "(chrony, ntp)",
        name_of(other), std::abs(ahead), ahead > 0 ? "ahead of" : "behind", name_of(first));
  return {};
}

/// The sentence that says in what a node differs from node 0, naming both; empty: in nothing.
[[nodiscard]] inline std::string difference(std::span<node_report const> by_node) {
  for (auto const& one : by_node.subspan(1))
    if (auto const problem = difference_of(by_node.front(), one); !problem.empty()) return problem;
  return {};
}

}  // namespace apps
