// threads::detail::wait_graph: which thread of which rank waits in which rendezvous, and whether
// these waits form a cycle.
//
// A rank has several streams, so a rank that waits in one rendezvous may still arrive at another.
// Rendezvous A is blocked by rendezvous B only if a rank missing in A can arrive through one thread
// alone, and that thread is inside B:
//  - the rank's call is queued on a stream whose worker is inside B (streams keep their order), or
//  - the rank has not made the call, one thread has made all its calls so far, and that thread is
//    inside B, or waits for a request whose stream's worker is inside B.
// In both cases A cannot complete before B does. A cycle of such rendezvous never ends; it is found
// when the last of its threads begins to wait. Waits that are not visible here (a stream that waits
// for an event, work of the caller) block nothing here: the deadline ends what depends on them.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/threads/rendezvous.hpp>

namespace parallel::threads::detail {

/// The waits of one world. The mutex of the world guards every call.
class wait_graph {
 public:
  explicit wait_graph(int ranks) : callers_(static_cast<std::size_t>(ranks)) {}

  /// `rank` will arrive at `name` through thread `worker`; the default id means a thread that is
  /// not known yet. The calling thread is the one that makes the rank's calls.
  void record_queued(rendezvous_name const& name, int rank, std::thread::id worker) {
    queued_[{name, rank}] = worker;
    auto& caller = callers_[static_cast<std::size_t>(rank)];
    if (!caller.first) caller.first = std::this_thread::get_id();
    if (*caller.first != std::this_thread::get_id()) caller.has_several = true;
  }

  /// Whether `rank` has made its call, so that it arrives when its stream does.
  [[nodiscard]] bool is_queued(rendezvous_name const& name, int rank) const {
    return queued_.contains({name, rank});
  }

  /// `rank` will never arrive at `name`, since its stream has failed.
  void record_dropped(rendezvous_name const& name, int rank) { queued_.erase({name, rank}); }

  void record_arrived(rendezvous_name const& name, int rank) { queued_.erase({name, rank}); }

  /// The calling thread begins to wait inside `meeting`, for `rank`.
  void enter(rendezvous const& meeting, int rank) {
    inside_[std::this_thread::get_id()] = {&meeting, rank};
  }
  void leave() { inside_.erase(std::this_thread::get_id()); }

  /// The calling thread waits on the host from here until end_host_wait.
  void begin_host_wait(parallel::host_wait const& wait) {
    hosts_.insert_or_assign(std::this_thread::get_id(), &wait);
  }
  void end_host_wait() { hosts_.erase(std::this_thread::get_id()); }

  struct cycle {
    std::vector<std::thread::id> threads;
    std::string message;
  };

  /// The cycle that the wait of `worker` is part of, if there is one.
  [[nodiscard]] std::optional<cycle> cycle_of(std::thread::id worker) const {
    auto const start = inside_.find(worker);
    if (start == inside_.end()) return {};
    std::vector<inside_map::const_iterator> path;
    std::vector<rendezvous const*> visited;
    if (!is_blocked_by(start->second.meeting, start->second.meeting, path, visited)) return {};
    cycle out;
    out.message = "deadlock: ";
    for (std::size_t i = 0; i < path.size(); ++i) {
      out.threads.push_back(path[i]->first);
      out.message += concat("rank ", path[i]->second.rank, " waits in ", call_of(path[i]->second),
                            " for rank ", path[(i + 1) % path.size()]->second.rank, "; ");
    }
    out.message +=
        "none of them can go on; make these calls in the same order on all ranks, and send and "
        "receive on separate streams where two ranks do both";
    return out;
  }

  /// The calls in which `rank` waits, joined by " and "; empty if there are none.
  [[nodiscard]] std::string calls_of(int rank) const {
    std::string out;
    for (auto const& [thread, wait] : inside_)
      if (wait.rank == rank) out += concat(out.empty() ? "" : " and ", call_of(wait));
    return out;
  }

 private:
  struct waiting_rank {
    rendezvous const* meeting = nullptr;
    int rank = 0;
  };
  struct calling_threads {
    std::optional<std::thread::id> first;
    bool has_several = false;
  };
  using inside_map = std::map<std::thread::id, waiting_rank>;

  static std::string call_of(waiting_rank const& wait) {
    return describe(wait.meeting->arrived[wait.meeting->position_of(wait.rank)]->call_signature);
  }

  // The wait of the only thread that can bring `rank` to `name`, if it waits in a rendezvous.
  [[nodiscard]] inside_map::const_iterator blocking_wait(rendezvous_name const& name,
                                                         int rank) const {
    if (auto const call = queued_.find({name, rank}); call != queued_.end())
      return inside_.find(call->second);
    auto const& caller = callers_[static_cast<std::size_t>(rank)];
    if (!caller.first || caller.has_several) return inside_.end();
    auto const wait = hosts_.find(*caller.first);
    if (wait == hosts_.end()) return inside_.find(*caller.first);
    // When the event has happened, the worker may be inside a later call, and the host continues.
    return wait->second->is_over() ? inside_.end() : inside_.find(wait->second->worker);
  }

  // Whether `goal` blocks `from`, over any number of rendezvous; `path` receives the waits.
  bool is_blocked_by(rendezvous const* goal, rendezvous const* from,
                     std::vector<inside_map::const_iterator>& path,
                     std::vector<rendezvous const*>& visited) const {
    visited.push_back(from);
    for (std::size_t i = 0; i < from->ranks.size(); ++i) {
      if (from->arrived[i]) continue;
      auto const next = blocking_wait(from->name, from->ranks[i]);
      if (next == inside_.end()) continue;
      auto const* const meeting = next->second.meeting;
      path.push_back(next);
      if (meeting == goal) return true;
      bool is_visited = false;
      for (auto const* const visited_meeting : visited)
        is_visited = is_visited || visited_meeting == meeting;
      if (!is_visited && is_blocked_by(goal, meeting, path, visited)) return true;
      path.pop_back();
    }
    return false;
  }

  std::map<std::pair<rendezvous_name, int>, std::thread::id> queued_;
  std::map<std::thread::id, parallel::host_wait const*> hosts_;
  inside_map inside_;
  std::vector<calling_threads> callers_;  // by rank
};

}  // namespace parallel::threads::detail
