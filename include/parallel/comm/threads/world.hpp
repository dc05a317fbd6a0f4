// threads::world: the rendezvous place of ranks that are threads of one process.
//
// A collective is a rendezvous: every rank comes with its signature and its pointers, waits on a
// condition variable (never spinning) until all are there, does its share of the work on the other
// ranks' memory, and leaves when everybody has finished. One mutex guards the bookkeeping; data
// moves outside of it. A rendezvous whose ranks disagree, that is not complete in time, or that
// waits for itself (wait_graph.hpp), aborts the world: every waiter wakes with the reason. Parts of
// a world (communicator::split) are groups in it, so an abort reaches everybody, and messages name
// ranks as the world does. Once a rendezvous is complete its ranks use each other's memory: then
// even an abort frees nobody before all have finished, or the grace is over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
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
#include <parallel/comm/threads/rendezvous.hpp>
#include <parallel/comm/threads/wait_graph.hpp>
#include <parallel/core/clock.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/patience.hpp>
#include <parallel/core/shared_deadline.hpp>

namespace parallel::threads {

struct world_options {
  /// How long a rank waits for the others in one collective before it gives up.
  shared_deadline deadline = std::chrono::seconds(600);
  /// How long after a failure another rank may take to stop, and one that gives up its operations
  /// to say why.
  std::chrono::milliseconds grace = std::chrono::seconds(60);
  /// Called by threads::run when some rank did not stop within the grace, with a sentence that says
  /// the first failure and which ranks are stuck where. A thread cannot be ended from outside, and
  /// what it uses cannot be freed: it should end the process. Empty: prints the sentence on
  /// standard error and ends the process with status 1. The first failure is the current exception
  /// then. When it returns, the ranks are waited for further.
  std::function<void(std::string const&)> when_stuck = {};
};

namespace detail {
class queued_call;
}

class world final : public parallel::detail::abortable {
 public:
  /// A world of `size` ranks. Shared by their communicators.
  explicit world(int size, world_options options = {})
      : size_(checked_size(size)), options_(std::move(options)), waits_(size) {
    taken_.assign(static_cast<std::size_t>(size), 0);
    gave_up_.assign(static_cast<std::size_t>(size), 0);
    returned_.assign(static_cast<std::size_t>(size), 0);
  }

  [[nodiscard]] int size() const { return size_; }

  /// Wakes every waiting rank, and stops every later collective, with an `aborted` error that gives
  /// `reason`. Only the first reason counts.
  void abort(std::string const& reason) override {
    std::scoped_lock const lock(mutex_);
    abort_locked(reason);
  }

  /// Aborts as `abort` does, since `rank` failed.
  void abort_by(int rank, std::string const& reason) {
    std::scoped_lock const lock(mutex_);
    abort_locked(concat("rank ", rank, " failed: ", reason), rank);
  }

  void give_up(int rank, std::string const& reason) override {
    std::scoped_lock const lock(mutex_);
    if (reason_) return;
    if (!given_up_) given_up_ = {reason, rank, std::chrono::steady_clock::now() + options_.grace};
    gave_up_[static_cast<std::size_t>(rank)] = 1;
    wake_all();
  }

  /// The program of `rank` has returned: whoever waits for a call of it, now or later, is told so.
  void returned(int rank) {
    std::scoped_lock const lock(mutex_);
    returned_[static_cast<std::size_t>(rank)] = 1;
    for (auto const& [name, here] : open_rendezvous_) stop_if_one_returned(*here);
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
  /// The rank whose failure was the first abort; none: no abort, or nobody's in particular.
  [[nodiscard]] std::optional<int> failed_rank() const {
    std::scoped_lock const lock(mutex_);
    return failed_;
  }
  /// In which calls `rank` waits: "in a and b"; "in no collective".
  [[nodiscard]] std::string whereabouts(int rank) const {
    std::scoped_lock const lock(mutex_);
    return whereabouts_locked(rank);
  }

 private:
  friend class communicator;
  friend class detail::queued_call;
  using rendezvous = detail::rendezvous;
  using rendezvous_name = detail::rendezvous_name;

  struct abandonment {
    std::string reason;
    int rank = 0;
    steady_time until;  // when it becomes the reason of an abort
  };

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
  void queued(rendezvous_name const& name, int rank, std::thread::id worker) {
    std::scoped_lock const lock(mutex_);
    waits_.queued(name, rank, worker);
    stop_if_deadlocked(worker);
  }

  // What was queued is gone without having come.
  void dropped(rendezvous_name const& name, int rank) {
    std::scoped_lock const lock(mutex_);
    waits_.dropped(name, rank);
    auto const open = open_rendezvous_.find(name);
    if (open != open_rendezvous_.end()) stop_if_one_returned(*open->second);
  }

  // Comes to a rendezvous of `ranks` and waits for all others. Throws when they disagree, at the
  // deadline, and when the world is aborted before the rendezvous is complete.
  std::shared_ptr<rendezvous> enter(rendezvous_name const& name, std::vector<int> ranks, int rank,
                                    detail::participant const& mine) {
    std::unique_lock lock(mutex_);
    waits_.arrived(name, rank);
    stop_if_over(rank);
    auto& place = open_rendezvous_[name];
    if (!place) {
      place = std::make_shared<rendezvous>();
      place->name = name;
      place->arrived.resize(ranks.size());
      place->missing = ranks.size();
      place->ranks = std::move(ranks);
    }
    auto here = place;
    here->arrived[here->place_of(rank)] = mine;
    if (--here->missing == 0) {
      complete(*here, name.kind);
      open_rendezvous_.erase(name);
    } else {
      waits_.enters(*here, rank);
      stop_if_one_returned(*here);
      stop_if_deadlocked(std::this_thread::get_id());
      wait_for_all(lock, *here, rank, patience(options_.deadline.get()));
      waits_.leaves();
    }
    if (here->missing == 0) {  // even if aborted meanwhile: the others already use our memory
      if (here->mismatch.empty()) return here;
      throw error(here->mismatch);
    }
    for (auto const thread : deadlocked_)
      if (thread == std::this_thread::get_id()) throw error(*reason_);
    if (gave_up_[static_cast<std::size_t>(rank)] != 0) {  // who comes later must not find it here
      here->arrived[here->place_of(rank)].reset();
      if (++here->missing == here->ranks.size()) open_rendezvous_.erase(name);
    }
    stop_if_over(rank);
    std::string const message = overdue(*here, rank, mine.what);
    abort_locked(message, rank);
    throw timed_out(message);
  }

  void stop_if_over(int rank) const {
    if (reason_) throw aborted(*reason_);
    if (gave_up_[static_cast<std::size_t>(rank)] != 0) throw aborted(given_up_->reason);
  }

  // Until all have come, the end of `limit`, or there is no use in waiting.
  void wait_for_all(std::unique_lock<std::mutex>& lock, rendezvous& here, int rank,
                    patience limit) {
    auto const useless = [&] { return reason_ || gave_up_[static_cast<std::size_t>(rank)] != 0; };
    while (here.missing > 0 && !useless()) {
      auto const now = std::chrono::steady_clock::now();
      if (limit.over(now)) return;
      if (given_up_ && now >= given_up_->until)
        abort_locked(given_up_->reason, given_up_->rank);
      else
        here.changed.wait_until(
            lock, given_up_ ? std::min(limit.next(), given_up_->until) : limit.next());
    }
  }

  // Everybody's signature, by rank.
  std::vector<signature> exchange(rendezvous_name const& name, std::vector<int> ranks, int rank,
                                  signature const& mine) {
    auto const here = enter(name, std::move(ranks), rank, {.what = mine});
    std::vector<signature> all;
    for (auto const& one : here->participants)
      all.push_back(one.what);  // fixed since it was complete
    return all;
  }

  // `rank` has finished its work in the rendezvous, which takes from the others' memory: waits
  // until everybody has. Throws when somebody has not at the deadline, or when the grace after an
  // abort is over, and names whoever is stuck.
  void leave(rendezvous& here, int rank) {
    std::unique_lock lock(mutex_);
    std::erase(here.inside, rank);
    auto const over = [&] { return here.inside.empty(); };
    if (over()) return here.changed.notify_all();
    auto const wait = [&](std::chrono::milliseconds time, auto const& until) {
      for (patience limit(time); !until() && !limit.over();)
        here.changed.wait_until(lock, limit.next(), until);
    };
    auto const place = leaving_.insert(leaving_.end(), &here);
    wait(options_.deadline.get(), [&] { return over() || reason_; });
    bool const stopped = !over() && reason_;
    if (stopped) wait(options_.grace, over);
    leaving_.erase(place);
    if (over()) return;
    auto const& mine = here.participants[here.place_of(rank)].what;
    auto const message =
        concat(describe(mine), " (call ", mine.sequence, "): rank ", rank, " waited ",
               seconds(stopped ? options_.grace : options_.deadline.get()), " s for ",
               name_ranks(here.inside), " to finish its part, after all had come");
    if (stopped) throw aborted(concat(*reason_, "; then ", message));
    abort_locked(message, rank);
    throw timed_out(message);
  }

  void complete(rendezvous& here, detail::rendezvous_kind kind) {
    std::vector<signature> all;
    for (auto const& one : here.arrived) {
      here.participants.push_back(*one);
      all.push_back(one->what);
    }
    if (kind == detail::rendezvous_kind::collective)
      here.mismatch = disagreement(all, call_sites::may_differ, here.ranks);
    if (kind == detail::rendezvous_kind::message)
      here.mismatch = message_disagreement(all[0], here.ranks[0], all[1], here.ranks[1]);
    if (!here.mismatch.empty()) abort_locked(here.mismatch);
    here.inside = here.ranks;
    here.changed.notify_all();
  }

  void abort_locked(std::string const& reason, std::optional<int> by = std::nullopt) {
    if (reason_) return;
    reason_ = reason;
    failed_ = by;
    wake_all();
  }

  void wake_all() {
    for (auto const& [name, here] : open_rendezvous_) here->changed.notify_all();
    for (auto* const here : leaving_) here->changed.notify_all();
  }

  // Aborts when a rank has returned that the rendezvous waits for.
  void stop_if_one_returned(rendezvous const& here) {
    for (std::size_t i = 0; i < here.ranks.size(); ++i) {
      int const rank = here.ranks[i];
      if (here.arrived[i] || returned_[static_cast<std::size_t>(rank)] == 0 ||
          waits_.is_queued(here.name, rank))
        continue;
      std::size_t some = 0;  // of those that have come
      while (!here.arrived[some]) ++some;
      auto const& what = here.arrived[some]->what;
      return abort_locked(concat("rank ", rank, " has returned from its program, but rank ",
                                 here.ranks[some], " waits for it in ", describe(what), " (call ",
                                 what.sequence,
                                 "); all ranks must make the same calls in the same order"));
    }
  }

  // Aborts when the wait of `worker` closes a circle; the threads in it throw what they are told. A
  // rank that has given up leaves every circle by itself.
  void stop_if_deadlocked(std::thread::id worker) {
    if (reason_ || given_up_) return;
    auto const found = waits_.circle_of(worker);
    if (!found) return;
    deadlocked_ = found->threads;
    abort_locked(found->message);
  }

  static double seconds(std::chrono::milliseconds time) {
    return static_cast<double>(time.count()) / 1000.0;
  }

  std::string whereabouts_locked(int rank) const {
    auto const places = waits_.places_of(rank);
    return places.empty() ? "is in no collective" : "waits in " + places;
  }

  // Says who did not come, and where every rank of the world waits.
  std::string overdue(rendezvous const& here, int rank, signature const& mine) const {
    std::vector<int> missing;
    std::string others;
    for (int other = 0; other < size_; ++other) {
      auto const participant = here.place_of(other);
      bool const late = participant < here.ranks.size() && !here.arrived[participant];
      if (late) missing.push_back(other);
      if (late || (other != rank && !waits_.places_of(other).empty()))
        others += concat("; rank ", other, ' ', whereabouts_locked(other));
    }
    return concat(describe(mine), " (call ", mine.sequence, "): rank ", rank, " waited ",
                  options_.deadline.seconds(), " s for ", name_ranks(missing), others);
  }

  int const size_;
  world_options const options_;
  mutable std::mutex mutex_;
  std::vector<char> taken_, returned_;                         // by rank
  std::map<std::tuple<int, std::uint64_t, int>, int> groups_;  // parent, split, color
  std::map<rendezvous_name, std::shared_ptr<rendezvous>>
      open_rendezvous_;  // that some have come to, not all
  detail::wait_graph waits_;
  std::vector<std::thread::id> deadlocked_;
  std::list<rendezvous*> leaving_;  // complete ones, once for each rank that waits to leave it
  std::optional<std::string> reason_;
  std::optional<int> failed_;
  std::optional<abandonment> given_up_;  // the first
  std::vector<char> gave_up_;            // by rank
};

}  // namespace parallel::threads
