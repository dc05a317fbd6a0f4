// threads::world: the meeting place of ranks that are threads of one process.
//
// A collective is a meeting: every rank comes with its signature and its pointers, waits on a
// condition variable (never spinning) until all are there, does its share of the work on the other
// ranks' memory, and leaves when everybody has finished. One mutex guards the bookkeeping; data
// moves outside of it. A meeting whose ranks disagree, that is not complete in time, or that waits
// for itself (wait_graph.hpp), aborts the world: every waiter wakes with the reason. Parts of a
// world (communicator::split) are groups in it, so an abort reaches everybody, and messages name
// ranks as the world does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/agreement.hpp>
#include <parallel/comm/signature.hpp>
#include <parallel/comm/threads/meeting.hpp>
#include <parallel/comm/threads/wait_graph.hpp>
#include <parallel/core/clock.hpp>

namespace parallel::threads {

struct world_options {
  /// How long a rank waits for the others in one collective before it gives up.
  std::chrono::milliseconds deadline = std::chrono::seconds(600);
};

class world final : public parallel::detail::abortable {
 public:
  /// A world of `size` ranks. Shared by their communicators.
  explicit world(int size, world_options options = {})
      : size_(checked_size(size)), options_(options), waits_(size) {
    taken_.assign(static_cast<std::size_t>(size), 0);
  }

  [[nodiscard]] int size() const { return size_; }

  /// Wakes every waiting rank, and stops every later collective, with an `aborted` error that gives
  /// `reason`. Only the first reason counts.
  void abort(std::string const& reason) override {
    std::scoped_lock const lock(mutex_);
    abort_locked(reason);
  }

  void host_waits(parallel::detail::host_waiting const& wait) override {
    std::scoped_lock const lock(mutex_);
    waits_.host_waits(wait);
    stop_if_deadlocked(wait.worker);
  }
  void host_goes_on() override {
    std::scoped_lock const lock(mutex_);
    waits_.host_goes_on();
  }

  /// The reason of the first abort.
  [[nodiscard]] std::optional<std::string> abort_reason() const {
    std::scoped_lock const lock(mutex_);
    return reason_;
  }

 private:
  friend class communicator;
  using meeting = detail::meeting;
  using meeting_name = detail::meeting_name;

  static int checked_size(int size) {
    require(size >= 1, "threads::world: the number of ranks must be at least 1, not ", size);
    return size;
  }

  // Each rank has one communicator, since the calls are numbered there.
  void take_rank(int rank) {
    std::scoped_lock const lock(mutex_);
    require(rank >= 0 && rank < size_, "threads::communicator: rank ", rank,
            " is not in a world of ", size_);
    auto& taken = taken_[static_cast<std::size_t>(rank)];
    require(taken == 0, "threads::communicator: rank ", rank,
            " of this world already has a communicator; give it a second world for another one");
    taken = 1;
  }

  // The number of the group that the `number`-th split of `group` makes of `color`.
  int group_of(int group, std::uint64_t number, int color) {
    std::scoped_lock const lock(mutex_);
    return groups_.try_emplace({group, number, color}, static_cast<int>(groups_.size()) + 1)
        .first->second;
  }

  // Told before a stream's `worker` enters; the default id: some thread will.
  void queued(meeting_name const& name, int rank, std::thread::id worker) {
    std::scoped_lock const lock(mutex_);
    waits_.queued(name, rank, worker);
    stop_if_deadlocked(worker);
  }

  // Comes to a meeting of `ranks` and waits for all others. Throws when they disagree, at the
  // deadline, and when the world is aborted before the meeting is complete.
  std::shared_ptr<meeting> enter(meeting_name const& name, std::vector<int> ranks, int rank,
                                 detail::seat const& mine) {
    std::unique_lock lock(mutex_);
    waits_.arrived(name, rank);
    if (reason_) throw aborted(*reason_);
    auto& place = meetings_[name];
    if (!place) {
      place = std::make_shared<meeting>();
      place->name = name;
      place->arrived.resize(ranks.size());
      place->missing = ranks.size();
      place->ranks = std::move(ranks);
    }
    auto here = place;
    here->arrived[here->place_of(rank)] = mine;
    if (--here->missing == 0) {
      complete(*here, name.kind);
      meetings_.erase(name);
    } else {
      waits_.enters(*here, rank);
      stop_if_deadlocked(std::this_thread::get_id());
      auto const limit = std::chrono::steady_clock::now() + options_.deadline;
      here->changed.wait_until(lock, limit, [&] { return here->missing == 0 || reason_; });
      waits_.leaves();
    }
    if (here->missing == 0) {  // even if aborted meanwhile: the others already use our memory
      if (here->mismatch.empty()) return here;
      throw error(here->mismatch);
    }
    for (auto const thread : deadlocked_)
      if (thread == std::this_thread::get_id()) throw error(*reason_);
    if (reason_) throw aborted(*reason_);
    std::string const message = overdue(*here, rank, mine.what);
    abort_locked(message);
    throw error(message);
  }

  // Everybody's signature, by rank.
  std::vector<signature> exchange(meeting_name const& name, std::vector<int> ranks, int rank,
                                  signature const& mine) {
    auto const here = enter(name, std::move(ranks), rank, {.what = mine});
    std::vector<signature> all;
    for (auto const& one : here->seats) all.push_back(one.what);  // fixed since it was complete
    return all;
  }

  // Waits until everybody has finished the work of the meeting, which never blocks.
  void leave(meeting& here) {
    std::unique_lock lock(mutex_);
    if (--here.inside == 0) here.changed.notify_all();
    here.changed.wait(lock, [&] { return here.inside == 0; });
  }

  void complete(meeting& here, detail::meeting_kind kind) {
    std::vector<signature> all;
    for (auto const& one : here.arrived) {
      here.seats.push_back(*one);
      all.push_back(one->what);
    }
    if (kind == detail::meeting_kind::collective)
      here.mismatch = disagreement(all, call_sites::may_differ, here.ranks);
    if (kind == detail::meeting_kind::message)
      here.mismatch = message_disagreement(all[0], here.ranks[0], all[1], here.ranks[1]);
    if (!here.mismatch.empty()) abort_locked(here.mismatch);
    here.inside = here.seats.size();
    here.changed.notify_all();
  }

  void abort_locked(std::string const& reason) {
    if (reason_) return;
    reason_ = reason;
    for (auto const& [name, here] : meetings_) here->changed.notify_all();
  }

  // Aborts when the wait of `worker` closes a circle; the threads in it throw what they are told.
  void stop_if_deadlocked(std::thread::id worker) {
    if (reason_) return;
    auto const found = waits_.circle_of(worker);
    if (!found) return;
    deadlocked_ = found->threads;
    abort_locked(found->message);
  }

  // Says who did not come, and where every rank of the world waits.
  std::string overdue(meeting const& here, int rank, signature const& mine) const {
    std::vector<int> missing;
    std::string others;
    for (int other = 0; other < size_; ++other) {
      auto const seat = here.place_of(other);
      auto const places = waits_.places_of(other);
      if (seat < here.ranks.size() && !here.arrived[seat]) {
        missing.push_back(other);
        others += concat("; rank ", other,
                         places.empty() ? " is in no collective" : " waits in " + places);
      } else if (other != rank && !places.empty()) {
        others += concat("; rank ", other, " waits in ", places);
      }
    }
    return concat(describe(mine), " (call ", mine.sequence, "): rank ", rank, " waited ",
                  static_cast<double>(options_.deadline.count()) / 1000.0, " s for ",
                  name_ranks(missing), others);
  }

  int const size_;
  world_options const options_;
  mutable std::mutex mutex_;
  std::vector<char> taken_;
  std::map<std::tuple<int, std::uint64_t, int>, int> groups_;  // parent, split, color
  std::map<meeting_name, std::shared_ptr<meeting>> meetings_;  // the incomplete ones
  detail::wait_graph waits_;
  std::vector<std::thread::id> deadlocked_;
  std::optional<std::string> reason_;
};

}  // namespace parallel::threads
