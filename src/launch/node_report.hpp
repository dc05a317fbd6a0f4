// node_report: what a node is going to run, and the comparison of the reports of two nodes.
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

/// A node's own description of what it is going to run.
struct node_report {
  int node = 0;
  int nodes = 1;
  int ranks = 1;  // on this node
  int restarts = 0;
  int spares = 0;         // further nodes, numbered after those, that replace lost ones
  int min_nodes = 1;      // the smallest number of nodes with which the run goes on
  int node_multiple = 1;  // the number of nodes is a multiple of it
  std::string host = {};
  std::string program = {};                       // the program's path
  std::string program_hash = {};                  // the hash of the program's content
  std::vector<std::string> arguments = {};        // the program's
  std::map<std::string, std::string> files = {};  // content hashes of the files that arguments name
  double clock = 0;                               // seconds ahead of the folder's clock
};

/// The largest allowed difference between the clocks of two machines, in seconds.
inline constexpr double max_clock_difference = 30;

[[nodiscard]] inline std::string to_string(node_report const& report) {
  return fmt::format("node {} ({})", report.node, report.host);
}

/// A sentence that says in what two nodes differ; empty where they agree.
[[nodiscard]] inline std::string difference_of(node_report const& first, node_report const& other) {
  struct option {
    char const* name;
    int node_report::*value;
  };
  for (auto const& [name, value] :
       {option{"--nodes", &node_report::nodes}, option{"-n", &node_report::ranks},
        option{"--restarts", &node_report::restarts}, option{"--spares", &node_report::spares},
        option{"--least", &node_report::min_nodes},
        option{"--multiple", &node_report::node_multiple}})
    if (first.*value != other.*value)
      return fmt::format("{} has {} {}, {} {}; start all with the same", to_string(other), name,
                         other.*value, to_string(first), first.*value);
  if (first.program_hash != other.program_hash)
    return fmt::format(
        "{} runs another program than {}: {} is not the same file as {}; install "
        "one build on all nodes",
        to_string(other), to_string(first), other.program, first.program);
  auto const argument_text = [](node_report const& report, std::size_t i) {
    return i < report.arguments.size() ? "'" + report.arguments[i] + "'" : std::string("nothing");
  };
  for (std::size_t i = 0; i < std::max(first.arguments.size(), other.arguments.size()); ++i)
    if (argument_text(first, i) != argument_text(other, i))
      return fmt::format(
          "{} runs the program with other arguments than {}: {}, not {}; start all "
          "with the same",
          to_string(other), to_string(first), argument_text(other, i), argument_text(first, i));
  for (auto const& [file, hash] : first.files) {
    auto const found = other.files.find(file);
    if (found == other.files.end() || found->second != hash)
      return fmt::format("{} has another {} than {}; give all nodes the same configuration",
                         to_string(other), file, to_string(first));
  }
  double const ahead = other.clock - first.clock;
  if (std::abs(ahead) > max_clock_difference)
    return fmt::format(
        "the clock of {} is {:.0f} s {} that of {}; set the machines' clocks "
        "(chrony, ntp)",
        to_string(other), std::abs(ahead), ahead > 0 ? "ahead of" : "behind", to_string(first));
  return {};
}

/// A sentence that says which node differs from node 0 and in what, with both names; empty where
/// all agree.
[[nodiscard]] inline std::string difference(std::span<node_report const> reports) {
  for (auto const& report : reports.subspan(1))
    if (auto const problem = difference_of(reports.front(), report); !problem.empty())
      return problem;
  return {};
}

}  // namespace apps
