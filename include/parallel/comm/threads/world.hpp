// threads::world: the meeting place of ranks that are threads of one process.
//
// A collective is a meeting: every rank comes with its signature and its pointers, waits on a
// condition variable (never spinning) until all are there, does its share of the work on the other
// ranks' memory, and leaves when everybody has finished. One mutex guards the bookkeeping; data
// moves outside of it. A meeting whose ranks disagree, or that is not complete in time, aborts the
// world: every waiter wakes with the reason. Parts of a world (communicator::split) are groups in
// it, so an abort reaches everybody, and messages name ranks as the world does.
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/signature.hpp>

namespace parallel::threads {

struct world_options {
  /// How long a rank waits for the others in one collective before it gives up.
  std::chrono::milliseconds deadline = std::chrono::seconds(600);
};

namespace detail {

/// What a rank brings to a meeting.
struct seat {
  signature what;
  void const* in = nullptr;
  void* out = nullptr;
  std::atomic<std::uint64_t>* sent = nullptr;  // counts what others take from `in`; may be null
};

enum class meeting_kind : std::uint8_t { collective, message, exchange };

/// Names a meeting: the number-th of its kind in a group, of messages the number-th of (from, to,
/// tag). Ranks are those of the world.
struct meeting_name {
  int group = 0;
  meeting_kind kind = meeting_kind::collective;
  int from = -1;
  int to = -1;
  int tag = 0;
  std::uint64_t number = 0;
  auto operator<=>(meeting_name const&) const = default;
};

struct meeting {
  std::vector<int> ranks;
  std::vector<std::optional<seat>> arrived;  // as ranks
  std::vector<seat> seats;                   // when all have come
  std::size_t missing = 0;
  std::size_t inside = 0;
  std::string mismatch;
  std::condition_variable changed;
};

}  // namespace detail

class world final : public parallel::detail::abortable {
 public:
  /// A world of `size` ranks. Shared by their communicators.
  explicit world(int size, world_options options = {}) : size_(size), options_(options) {
    require(size >= 1, "threads::world: the number of ranks must be at least 1, not ", size);
    taken_.assign(static_cast<std::size_t>(size), 0);
  }

  [[nodiscard]] int size() const { return size_; }

  /// Wakes every waiting rank, and stops every later collective, with an `aborted` error that gives
  /// `reason`. Only the first reason counts.
  void abort(std::string const& reason) override {
    std::scoped_lock const lock(mutex_);
    abort_locked(reason);
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

  // Comes to a meeting of `ranks` and waits for all others. Throws when they disagree, at the
  // deadline, and when the world is aborted before the meeting is complete.
  std::shared_ptr<meeting> enter(meeting_name const& name, std::vector<int> ranks, int rank,
                                 detail::seat const& mine) {
    std::unique_lock lock(mutex_);
    if (reason_) throw aborted(*reason_);
    auto& place = meetings_[name];
    if (!place) {
      place = std::make_shared<meeting>();
      place->arrived.resize(ranks.size());
      place->missing = ranks.size();
      place->ranks = std::move(ranks);
    }
    auto here = place;
    for (std::size_t i = 0; i < here->ranks.size(); ++i)
      if (here->ranks[i] == rank) here->arrived[i] = mine;
    if (--here->missing == 0) {
      complete(*here, name.kind);
      meetings_.erase(name);
    } else {
      auto const limit = std::chrono::steady_clock::now() + options_.deadline;
      here->changed.wait_until(lock, limit, [&] { return here->missing == 0 || reason_; });
    }
    if (here->missing == 0) {  // even if aborted meanwhile: the others already use our memory
      if (here->mismatch.empty()) return here;
      throw error(here->mismatch);
    }
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

  // Says who did not come, and where everybody else waits.
  std::string overdue(meeting const& here, int rank, signature const& mine) const {
    std::vector<int> missing;
    std::string others;
    for (std::size_t i = 0; i < here.ranks.size(); ++i) {
      if (!here.arrived[i])
        missing.push_back(here.ranks[i]);
      else if (here.ranks[i] != rank)
        others += concat("; rank ", here.ranks[i], " came: ", describe(here.arrived[i]->what));
    }
    for (int const absent : missing) {
      std::string place;
      for (auto const& [name, other] : meetings_)
        for (std::size_t i = 0; i < other->ranks.size(); ++i)
          if (other->ranks[i] == absent && other->arrived[i])
            place += concat(place.empty() ? "" : " and ", describe(other->arrived[i]->what));
      others +=
          concat("; rank ", absent, place.empty() ? " is in no collective" : " waits in ", place);
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
  std::optional<std::string> reason_;
};

}  // namespace parallel::threads
