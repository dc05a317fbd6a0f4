// The nodes of a run: how the `launch` of every machine finds the others in a folder that all see.
//
// Each node leaves a file that says what it is going to run, with a number drawn for this start.
// The leader, node 0, answers with a name for the run, drawn too, and the numbers it has seen; a
// node that finds its own takes the name into its file. When all have, everybody is known to be
// there now, whatever earlier runs have left, and the leader says go and who is one of the run, or
// what the nodes do not agree in. All files are sealed with the run's key.
//
// When a run starts again, nodes that do not come are held to be gone after a while: spares take
// their places, or the run has fewer nodes. Where node 0 does not come, the next one leads; of
// several that would, one makes the file `lead-<name>`, and where nothing is heard of that one
// `lead-<name>.1`. A node 0 that comes back follows whoever leads by then.
//
// Where the folder fails, what was to be done there is tried again for as long as nodes wait.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launching/node_report.hpp"
#include "launching/outage.hpp"
#include "support/run_key.hpp"

namespace apps {

/// What a node's ranks have come to.
struct node_failure {
  int node = 0;
  int code = 1;         // for launch to end with
  std::string message;  // which rank, and how
};

/// What a meeting has come to.
struct node_place {
  std::filesystem::path folder;  // in which the ranks meet: of this run and this start of it
  int generation = 0;            // how often the program was started again
  int position = 0;              // of this node among those that run; -1: it is a spare
  int nodes = 1;                 // that run
};

/// How many of `there` nodes run, of `nodes` wanted: as many as can, a multiple of `multiple`.
[[nodiscard]] constexpr int nodes_that_run(int there, int nodes, int multiple) {
  int const most = there < nodes ? there : nodes;
  return most == nodes ? most : most - most % multiple;
}

struct sealed_text;

class node_meeting {
 public:
  /// `folder` is there. A node waits for the others until `wait` has passed; one that has run
  /// before and does not come back until `gone` has is held to be gone.
  node_meeting(std::filesystem::path folder, run_key key, node_report self,
               std::chrono::seconds wait, std::chrono::seconds gone = std::chrono::seconds(60));

  /// Blocks until the nodes are here and agree, and says who runs. `generation`: of this start,
  /// where this node leads. Throws `error` when they do not agree, or too few come.
  [[nodiscard]] node_place meet(int generation);

  /// Tells the other nodes that this one's ranks have failed, or have all ended well; where the
  /// folder fails, `beat` does.
  void tell_failure(node_failure const& what);
  void tell_done();
  /// Tells them that this one is asked to end, and is not there when they start again.
  void tell_leave();
  /// Whether something is not told yet, and may still be.
  [[nodiscard]] bool has_to_tell() const { return !untold_.empty(); }

  /// What another node has told, if its ranks have failed.
  [[nodiscard]] std::optional<node_failure> failure_elsewhere();
  /// Whether all nodes have told that their ranks ended well; on others than the leader, whether
  /// that has cleaned up, so that the next run may meet in the same folder.
  [[nodiscard]] bool all_done();
  /// Those that have not; where all have, the one that has not cleaned up.
  [[nodiscard]] std::vector<int> not_done() const;
  /// Whether so many others leave that those that are left, spares included, cannot go on.
  [[nodiscard]] bool are_too_few_left();

  /// To be called now and then while ranks run: where this node leads, it lets spares and nodes
  /// that come late know that the run lives.
  void beat();

  /// For a spare: whether the others meet again, and it with them. Throws when nobody leads any
  /// more, as seen for the time that a node waits.
  [[nodiscard]] bool meets_again();

  /// Whether this node leads, and removes what the meeting has left.
  [[nodiscard]] bool leads() const { return leader_ == self_.node; }
  /// Removes what the meeting has left, where this node leads; the others go on then.
  void clean();

 private:
  void put(std::filesystem::path const& file, std::string const& text) const;
  void write(std::filesystem::path const& file, std::string const& text);
  [[nodiscard]] std::optional<sealed_text> read(std::filesystem::path const& file);
  void tell(std::string const& file, std::string const& text);
  void tell_the_rest();
  [[nodiscard]] std::string report_text(std::string const& taken) const;
  void report(std::string const& taken);
  [[nodiscard]] bool another_leads();
  [[nodiscard]] bool takes_the_lead(std::string const& name);
  [[nodiscard]] bool lead(std::string const& name, bool first);
  [[nodiscard]] bool follow(std::string const& next, std::string& taken_lead);
  [[nodiscard]] std::filesystem::path file_of(int node) const;
  [[nodiscard]] int most_nodes() const { return self_.nodes + self_.spares; }

  std::filesystem::path folder_;
  run_key key_;
  node_report self_;
  std::chrono::seconds wait_, gone_;
  outage reading_, writing_;
  std::string run_;           // its name; of others than node 0 empty before they have met
  std::string drawn_;         // this node's number
  std::string name_;          // of the run and its generation, as agreed on last
  std::vector<int> members_;  // the nodes that run
  int leader_ = 0;
  std::filesystem::path ranks_;                // where they meet; empty: not yet
  std::map<std::string, std::string> untold_;  // files of `ranks_` that are to be written
  std::string said_;  // in the file `run`: by this node, or as it was read last
  std::uint64_t beats_ = 0;
  std::chrono::steady_clock::time_point last_beat_;
};

}  // namespace apps
