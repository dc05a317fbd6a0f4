// The nodes of a run: how the `launch` of every machine finds the others in a folder that all see.
//
// Each node leaves a file that says what it is going to run, with a number drawn for this start.
// Node 0 answers with a name for the run, drawn too, and the numbers it has seen; a node that finds
// its own takes the name into its file. When all have, everybody is known to be there now, whatever
// earlier runs have left, and node 0 says go, or what the nodes do not agree in. All files are
// sealed with the run's key.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/run_key.hpp"

namespace apps {

/// What a node is going to do, as it says itself.
struct node_report {
  int node = 0;
  int nodes = 1;
  int ranks = 1;  // of this node
  int restarts = 0;
  std::string host = {};
  std::string program = {};                       // its path
  std::string program_hash = {};                  // and of what it holds
  std::vector<std::string> arguments = {};        // of the program
  std::map<std::string, std::string> files = {};  // named by arguments: hashes of what they hold
  double clock = 0;                               // seconds, beyond those of the folder's clock
};

/// What machines may differ in their clocks, in seconds.
inline constexpr double clocks_may_differ = 30;

/// The sentence that says in what a node differs from node 0, naming both; empty: in nothing.
[[nodiscard]] std::string difference(std::span<node_report const> by_node);

/// What a node's ranks have come to.
struct node_failure {
  int node = 0;
  int code = 1;         // for launch to end with
  std::string message;  // which rank, and how
};

class node_meeting {
 public:
  /// `folder` is there. A node waits for the others until `wait` has passed.
  node_meeting(std::filesystem::path folder, run_key key, node_report self,
               std::chrono::seconds wait);

  /// Blocks until all nodes are here and agree, and gives the folder in which the ranks meet: of
  /// this run and this `generation` of it, as node 0 counts them. Throws `error` when they do not
  /// agree, or not all come.
  [[nodiscard]] std::filesystem::path meet(int generation);

  /// Tells the other nodes that this one's ranks have failed, or have all ended well.
  void tell_failure(node_failure const& what);
  void tell_done();

  /// What another node has told, if its ranks have failed.
  [[nodiscard]] std::optional<node_failure> failure_elsewhere() const;
  /// Whether all nodes have told that their ranks ended well; on others than node 0, whether that
  /// has cleaned up, so that the next run may meet in the same folder.
  [[nodiscard]] bool all_done() const;

  /// Removes what the meeting has left, on node 0; the others go on then.
  void clean();

 private:
  struct sealed_text;
  void write(std::filesystem::path const& file, std::string const& text) const;
  [[nodiscard]] std::optional<sealed_text> read(std::filesystem::path const& file) const;
  [[nodiscard]] std::string report_text(std::string const& taken) const;
  [[nodiscard]] std::string lead(std::string const& name);
  [[nodiscard]] std::string follow();
  [[nodiscard]] std::filesystem::path file_of(int node) const;

  std::filesystem::path folder_;
  run_key key_;
  node_report self_;
  std::chrono::seconds wait_;
  std::string run_;              // its name, where this is node 0
  std::string drawn_;            // this node's number
  std::filesystem::path ranks_;  // where they meet; empty: not yet
};

}  // namespace apps
