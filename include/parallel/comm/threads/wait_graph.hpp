// threads::detail::wait_graph: which thread of which rank waits in which rendezvous, and whether
// some of them wait for each other in a circle.
//
// A rank has several streams, so a rank that waits may still come to another rendezvous. Meeting A
// is held up by rendezvous B only if a rank missing in A can come to it through one thread alone,
// and that thread is inside B:
//  - the rank's call is queued on a stream whose worker is inside B (streams keep their order), or
//  - the rank has not made the call, all its calls so far came from one thread, and that thread is
//    inside B, or waits for a request whose stream's worker is inside B.
// Both mean that A cannot complete before B does. A circle of such rendezvous never ends, and is
// found when the last of its threads begins to wait. Waits that cannot be seen here (a stream that
// waits for an event, work of the caller's own) hold up nothing: what hangs on them is left to the
// deadline.
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

/// Bookkeeping of one world; its mutex guards every call.
class wait_graph {
 public:
  explicit wait_graph(int ranks) : callers_(static_cast<std::size_t>(ranks)) {}

  /// `rank` will come to `name` by `worker`; the default id: by a thread not known yet. The calling
  /// thread is the one that makes the rank's calls.
  void queued(rendezvous_name const& name, int rank, std::thread::id worker) {
    queued_[{name, rank}] = worker;
    auto& caller = callers_[static_cast<std::size_t>(rank)];
    if (!caller.first) caller.first = std::this_thread::get_id();
    if (*caller.first != std::this_thread::get_id()) caller.several = true;
  }

  /// Whether `rank` has made its call, and comes when its stream does.
  [[nodiscard]] bool is_queued(rendezvous_name const& name, int rank) const {
    return queued_.contains({name, rank});
  }

  /// It never comes: its stream has failed.
  void dropped(rendezvous_name const& name, int rank) { queued_.erase({name, rank}); }

  /// `rank` has come to `name`.
  void arrived(rendezvous_name const& name, int rank) { queued_.erase({name, rank}); }

  /// The calling thread begins to wait inside `where`, for `rank`.
  void enters(rendezvous const& where, int rank) {
    inside_[std::this_thread::get_id()] = {&where, rank};
  }
  void leaves() { inside_.erase(std::this_thread::get_id()); }

  /// The calling thread begins to wait, until host_goes_on.
  void host_waits(parallel::detail::host_waiting const& wait) {
    hosts_.insert_or_assign(std::this_thread::get_id(), &wait);
  }
  void host_goes_on() { hosts_.erase(std::this_thread::get_id()); }

  struct circle {
    std::vector<std::thread::id> threads;
    std::string message;
  };

  /// The circle that the wait of `worker` is part of, if any.
  [[nodiscard]] std::optional<circle> circle_of(std::thread::id worker) const {
    auto const start = inside_.find(worker);
    if (start == inside_.end()) return {};
    std::vector<inside_map::const_iterator> path;
    std::vector<rendezvous const*> seen;
    if (!leads_to(start->second.where, start->second.where, path, seen)) return {};
    circle out;
    out.message = "deadlock: ";
    for (std::size_t i = 0; i < path.size(); ++i) {
      out.threads.push_back(path[i]->first);
      out.message += concat("rank ", path[i]->second.rank, " waits in ", call_of(path[i]->second),
                            " for rank ", path[(i + 1) % path.size()]->second.rank, "; ");
    }
    out.message +=
        "none of them can go on; make these calls in the same order on all ranks, and send and "
        "receive on streams of their own where two ranks do both";
    return out;
  }

  /// The calls that `rank` waits in, joined by " and "; empty: none.
  [[nodiscard]] std::string places_of(int rank) const {
    std::string out;
    for (auto const& [thread, one] : inside_)
      if (one.rank == rank) out += concat(out.empty() ? "" : " and ", call_of(one));
    return out;
  }

 private:
  struct stay {
    rendezvous const* where = nullptr;
    int rank = 0;
  };
  struct calling_threads {
    std::optional<std::thread::id> first;
    bool several = false;
  };
  using inside_map = std::map<std::thread::id, stay>;

  static std::string call_of(stay const& one) {
    return describe(one.where->arrived[one.where->place_of(one.rank)]->what);
  }

  // Where the only thread is that can bring `rank` to `name`, if it waits in a rendezvous.
  [[nodiscard]] inside_map::const_iterator held_up(rendezvous_name const& name, int rank) const {
    if (auto const call = queued_.find({name, rank}); call != queued_.end())
      return inside_.find(call->second);
    auto const& caller = callers_[static_cast<std::size_t>(rank)];
    if (!caller.first || caller.several) return inside_.end();
    auto const wait = hosts_.find(*caller.first);
    if (wait == hosts_.end()) return inside_.find(*caller.first);
    // Once the event is reached the worker may be inside a later call, and the host goes on.
    return wait->second->over() ? inside_.end() : inside_.find(wait->second->worker);
  }

  // Whether `from` is held up, over any number of rendezvous, by `goal`; `path` is how.
  bool leads_to(rendezvous const* goal, rendezvous const* from,
                std::vector<inside_map::const_iterator>& path,
                std::vector<rendezvous const*>& seen) const {
    seen.push_back(from);
    for (std::size_t i = 0; i < from->ranks.size(); ++i) {
      if (from->arrived[i]) continue;
      auto const next = held_up(from->name, from->ranks[i]);
      if (next == inside_.end()) continue;
      auto const* const where = next->second.where;
      path.push_back(next);
      if (where == goal) return true;
      bool known = false;
      for (auto const* const one : seen) known = known || one == where;
      if (!known && leads_to(goal, where, path, seen)) return true;
      path.pop_back();
    }
    return false;
  }

  std::map<std::pair<rendezvous_name, int>, std::thread::id> queued_;
  std::map<std::thread::id, parallel::detail::host_waiting const*> hosts_;
  inside_map inside_;
  std::vector<calling_threads> callers_;  // by rank
};

}  // namespace parallel::threads::detail
