// The nodes of a run: the `launch` processes of all machines find each other in a shared folder.
//
// Each node writes a file that says what it is going to run, with a nonce drawn for this start. The
// leader, node 0, answers with a random name of the run and with the nonces that it has seen. A
// node that finds its own nonce writes the name into its file, which accepts it. When all nodes
// have accepted the name, all of them are known to be present now, whatever files earlier runs have
// left. The leader then says go and which nodes are members of the run, or in what the nodes
// disagree. All files are sealed with the run's key.
//
// At a restart, a node that does not come within a time limit is treated as gone: a spare replaces
// it, or the run has fewer nodes. Where node 0 does not come, another node leads. Of several
// candidates the one that creates the file `lead-<name>` leads; where that node stays silent, the
// one that creates `lead-<name>.1`. A node 0 that comes back follows the current leader.
//
// An operation that fails in the folder is repeated for as long as nodes wait for each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <launch/node_report.hpp>
#include <launch/outage.hpp>
#include <launch/run_key.hpp>

namespace apps {

/// The failure of a node's ranks.
struct node_failure {
  int node = 0;
  int code = 1;         // the exit code of launch
  std::string message;  // which rank, and how
};

/// The result of a meeting: what this node does in the start.
struct node_assignment {
  std::filesystem::path folder;  // the rendezvous of the ranks of this start
  int generation = 0;            // the number of restarts before this start
  int position = 0;              // this node's index among the running nodes; -1: it is a spare
  int nodes = 1;                 // the number of running nodes
};

/// The number of nodes that run if `present` of `nodes` requested nodes are present: `nodes` if all
/// are present, or else the largest multiple of `multiple`.
[[nodiscard]] constexpr int running_node_count(int present, int nodes, int multiple) {
  int const count = present < nodes ? present : nodes;
  return count == nodes ? count : count - count % multiple;
}

struct sealed_text;
using seconds = std::chrono::duration<double>;

class node_meeting {
 public:
  /// `folder` must exist. A node waits for the others for `wait`. A member of the last start that
  /// does not come back within `absence_limit` is treated as gone. While ranks run the leader shows
  /// at each `beat_interval` that its run is alive.
  node_meeting(std::filesystem::path folder, run_key key, node_report self, seconds wait,
               seconds absence_limit = seconds(60), seconds beat_interval = seconds(5));

  /// Blocks until the nodes are present and agree, and returns which of them run. Where this node
  /// leads, the start gets the number `generation`. Throws `error` when the nodes disagree or too
  /// few come.
  [[nodiscard]] node_assignment meet(int generation);

  /// Tells the other nodes that this node's ranks have failed, or have all ended well. Where the
  /// folder fails, `beat` writes the message later.
  void announce_failure(node_failure const& failure);
  void announce_done();
  /// Tells the other nodes that this node was asked to stop and takes no part in a restart.
  void announce_leave();
  /// Whether a message is not written yet.
  [[nodiscard]] bool has_pending_messages() const { return !pending_.empty(); }

  /// The failure that another node has announced, if there is one.
  [[nodiscard]] std::optional<node_failure> remote_failure();
  /// On the leader: whether all nodes have announced that their ranks ended well. On the other
  /// nodes: whether the leader has cleaned up, after which the next run may use the same folder.
  [[nodiscard]] bool are_all_done();
  /// The nodes that have not announced their end; where all have, the leader that has not cleaned
  /// up.
  [[nodiscard]] std::vector<int> unfinished_nodes() const;
  /// Whether so many other nodes leave that the remaining ones, spares included, cannot go on.
  [[nodiscard]] bool are_too_few_left();

  /// Must be called regularly while ranks run. It writes messages that are still to be written, and
  /// on the leader it shows spares and late nodes that the run is alive.
  void beat();

  /// For a spare: whether the others meet again, so that it must join them. Throws `error` when the
  /// leader has been silent for as long as a node waits.
  [[nodiscard]] bool has_new_meeting();

  /// Whether this node leads, and so removes the files of the meeting.
  [[nodiscard]] bool leads() const { return leader_ == self_.node; }
  /// Removes the files of the meeting where this node leads; the other nodes go on then.
  void clean();

 private:
  void put(std::filesystem::path const& file, std::string const& text) const;
  [[nodiscard]] std::optional<sealed_text> read(std::filesystem::path const& file);
  void announce(std::string const& file, std::string const& text);
  void write_pending();
  [[nodiscard]] std::string report_text(std::string const& accepted) const;
  void report(std::string const& accepted);
  [[nodiscard]] bool is_led_by_another();
  [[nodiscard]] bool claim_leadership(std::string const& name);
  struct roll_call;
  void require_unique_number(bool is_unique);
  [[nodiscard]] roll_call call_roll(std::string const& name, std::vector<int> const& expected,
                                    std::vector<std::string>& nonces);
  void open_start(std::string const& name, std::vector<int> const& present, int count);
  [[nodiscard]] bool lead(std::string const& name);
  [[nodiscard]] bool follow(std::string const& next, std::string& claimed_name);
  [[nodiscard]] std::filesystem::path file_of(int node) const;
  [[nodiscard]] int max_nodes() const { return self_.nodes + self_.spares; }

  std::filesystem::path folder_;
  run_key key_;
  node_report self_;
  seconds wait_limit_, absence_limit_, beat_interval_;
  outage read_outage_, write_outage_;
  std::string run_;           // its name; empty before the first meeting, except on node 0
  std::string nonce_;         // this node's nonce
  std::string name_;          // the name of the last agreed start; empty before the first meeting
  std::vector<int> members_;  // the nodes that run
  int leader_ = 0;
  std::filesystem::path ranks_;  // the rendezvous of the ranks; empty before the first meeting
  std::map<std::string, std::string> pending_;  // files of `ranks_` that are still to be written
  std::string last_answer_;  // of the file `run`: written by this node, or read last
  std::uint64_t beats_ = 0;
  std::chrono::steady_clock::time_point last_beat_;
};

}  // namespace apps
