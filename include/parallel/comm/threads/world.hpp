// threads::world: the shared state of ranks that are threads of one process.
//
// A collective is a rendezvous: every rank brings its signature and its pointers, waits on a
// condition variable (never spinning) until all have arrived, does its share of the work on the
// other ranks' memory, and leaves when every rank has finished. One mutex guards the bookkeeping;
// data moves without it. A rendezvous whose ranks disagree, that is not complete in time, or that
// is part of a deadlock (wait_graph.hpp), aborts the world: every waiting thread wakes with the
// reason. Sub-communicators (communicator::split) are groups in the world, so that an abort reaches
// all ranks, and messages name world ranks. In a complete rendezvous the ranks use each other's
// memory: then even an abort releases no rank before all have finished, or the grace is over.
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

namespace parallel::threads {

struct world_options {
  /// The time that a rank waits for the others in one collective.
  shared_deadline deadline = std::chrono::seconds(600);
  /// The time within which another rank must stop after a failure, and within which a rank that
  /// gives up its operations must tell the others the reason.
  std::chrono::milliseconds grace = std::chrono::seconds(60);
  /// Called by threads::run when a rank did not stop within the grace, with a sentence that names
  /// the first failure and the calls in which ranks are stuck. A thread cannot be ended from
  /// outside, and its memory cannot be freed: the function should end the process. Empty: prints
  /// the sentence on standard error and ends the process with status 1. The first failure is the
  /// current exception meanwhile. If the function returns, threads::run waits for the ranks again.
  std::function<void(std::string const&)> when_stuck = {};
};

namespace detail {
class queued_call;
}

class world final : public parallel::abortable {
 public:
  /// A world of `size` ranks. Shared by their communicators.
  explicit world(int size, world_options options = {})
      : size_(checked_size(size)), options_(std::move(options)), waits_(size) {
    has_communicator_.assign(static_cast<std::size_t>(size), 0);
    has_given_up_.assign(static_cast<std::size_t>(size), 0);
    has_returned_.assign(static_cast<std::size_t>(size), 0);
  }

  [[nodiscard]] int size() const { return size_; }

  /// Wakes every waiting rank, and stops every later collective, with an `aborted` error that gives
  /// `reason`. Only the first reason counts.
  void abort(std::string const& reason) override {
    std::scoped_lock const lock(mutex_);
    abort_locked(reason);
  }

  /// Aborts as `abort` does, naming `rank` as the rank that failed.
  void abort_by(int rank, std::string const& reason) {
    std::scoped_lock const lock(mutex_);
    abort_locked(concat("rank ", rank, " failed: ", reason), rank);
  }

  void give_up(int rank, std::string const& reason) override {
    std::scoped_lock const lock(mutex_);
    if (reason_) return;
    if (!first_abandonment_)
      first_abandonment_ = {reason, rank, std::chrono::steady_clock::now() + options_.grace};
    has_given_up_[static_cast<std::size_t>(rank)] = 1;
    wake_all();
  }

  /// Notes that the program of `rank` has returned: ranks that wait for a call of it, now or later,
  /// get an error.
  void record_return(int rank) {
    std::scoped_lock const lock(mutex_);
    has_returned_[static_cast<std::size_t>(rank)] = 1;
    for (auto const& [name, meeting] : open_rendezvous_) stop_if_one_returned(*meeting);
  }

  void begin_host_wait(parallel::host_wait const& wait) override {
    std::scoped_lock const lock(mutex_);
    waits_.begin_host_wait(wait);
    stop_if_deadlocked(wait.worker);
  }
  void end_host_wait() override {
    std::scoped_lock const lock(mutex_);
    waits_.end_host_wait();
  }

  /// The reason of the first abort.
  [[nodiscard]] std::optional<std::string> abort_reason() const {
    std::scoped_lock const lock(mutex_);
    return reason_;
  }
  /// The rank whose failure was the first abort; empty: no abort, or one without a failed rank.
  [[nodiscard]] std::optional<int> failed_rank() const {
    std::scoped_lock const lock(mutex_);
    return failed_;
  }
  /// The calls in which `rank` waits: "waits in a and b"; "is in no collective".
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
    steady_time deadline;  // when the reason becomes that of an abort
  };

  static int checked_size(int size) {
    require(size >= 1, "threads::world: the number of ranks must be at least 1, not ", size);
    return size;
  }

  // Reserves the single communicator of a rank, which numbers the rank's calls.
  void take_rank(int rank) {
    std::scoped_lock const lock(mutex_);
    require(rank >= 0 && rank < size_, "threads::communicator: rank ", rank,
            " is not in a world of ", size_);
    auto& has_communicator = has_communicator_[static_cast<std::size_t>(rank)];
    require(has_communicator == 0, "threads::communicator: rank ", rank,
            " of this world already has a communicator; give it a second world for another one");
    has_communicator = 1;
  }

  // The number of the group of `color` in split `number` of `group`.
  int group_of(int group, std::uint64_t number, int color) {
    std::scoped_lock const lock(mutex_);
    return groups_.try_emplace({group, number, color}, static_cast<int>(groups_.size()) + 1)
        .first->second;
  }

  // Notes that the stream thread `worker` will enter; the default id: an unknown thread will.
  void record_queued(rendezvous_name const& name, int rank, std::thread::id worker) {
    std::scoped_lock const lock(mutex_);
    waits_.record_queued(name, rank, worker);
    stop_if_deadlocked(worker);
  }

  // Notes that a queued call will never arrive.
  void record_dropped(rendezvous_name const& name, int rank) {
    std::scoped_lock const lock(mutex_);
    waits_.record_dropped(name, rank);
    auto const open = open_rendezvous_.find(name);
    if (open != open_rendezvous_.end()) stop_if_one_returned(*open->second);
  }

  // Arrives at a rendezvous of `ranks` and waits for all others. Throws when they disagree, at the
  // deadline, and when the world is aborted before the rendezvous is complete.
  std::shared_ptr<rendezvous> enter(rendezvous_name const& name, std::vector<int> ranks, int rank,
                                    detail::participant const& local) {
    std::unique_lock lock(mutex_);
    waits_.record_arrived(name, rank);
    stop_if_over(rank);
    auto& open_meeting = open_rendezvous_[name];
    if (!open_meeting) {
      open_meeting = std::make_shared<rendezvous>();
      open_meeting->name = name;
      open_meeting->arrived.resize(ranks.size());
      open_meeting->missing = ranks.size();
      open_meeting->ranks = std::move(ranks);
    }
    auto meeting = open_meeting;
    meeting->arrived[meeting->position_of(rank)] = local;
    if (--meeting->missing == 0) {
      complete(*meeting, name.kind);
      open_rendezvous_.erase(name);
    } else {
      waits_.enter(*meeting, rank);
      stop_if_one_returned(*meeting);
      stop_if_deadlocked(std::this_thread::get_id());
      wait_for_all(lock, *meeting, rank, patience(options_.deadline.get()));
      waits_.leave();
    }
    if (meeting->missing == 0) {  // even after an abort: the others already use this rank's memory
      if (meeting->mismatch.empty()) return meeting;
      throw error(meeting->mismatch);
    }
    for (auto const thread : deadlocked_)
      if (thread == std::this_thread::get_id()) throw error(*reason_);
    if (has_given_up_[static_cast<std::size_t>(rank)] != 0) {  // a later rank must not find it here
      meeting->arrived[meeting->position_of(rank)].reset();
      if (++meeting->missing == meeting->ranks.size()) open_rendezvous_.erase(name);
    }
    stop_if_over(rank);
    std::string const message = overdue(*meeting, rank, local.call_signature);
    abort_locked(message, rank);
    throw timed_out(message);
  }

  void stop_if_over(int rank) const {
    if (reason_) throw aborted(*reason_);
    if (has_given_up_[static_cast<std::size_t>(rank)] != 0)
      throw aborted(first_abandonment_->reason);
  }

  // Waits until all have arrived, `limit` is over, or waiting has become useless.
  void wait_for_all(std::unique_lock<std::mutex>& lock, rendezvous& meeting, int rank,
                    patience limit) {
    auto const must_stop = [&] {
      return reason_ || has_given_up_[static_cast<std::size_t>(rank)] != 0;
    };
    while (meeting.missing > 0 && !must_stop()) {
      auto const time = std::chrono::steady_clock::now();
      if (limit.is_over(time)) return;
      if (first_abandonment_ && time >= first_abandonment_->deadline)
        abort_locked(first_abandonment_->reason, first_abandonment_->rank);
      else
        meeting.changed.wait_until(
            lock, first_abandonment_ ? std::min(limit.next_check(), first_abandonment_->deadline)
                                     : limit.next_check());
    }
  }

  // Returns every rank's signature, by rank.
  std::vector<signature> exchange(rendezvous_name const& name, std::vector<int> ranks, int rank,
                                  signature const& local) {
    auto const meeting = enter(name, std::move(ranks), rank, {.call_signature = local});
    std::vector<signature> signatures;
    for (auto const& participant : meeting->participants)
      signatures.push_back(participant.call_signature);  // constant once the rendezvous is complete
    return signatures;
  }

  // Called when `rank` has finished its part of the operation. Other ranks may still read its
  // memory, so the call waits until all ranks have finished. It throws at the deadline, or when the
  // grace after an abort is over; the error names the ranks that have not finished.
  void leave(rendezvous& meeting, int rank) {
    std::unique_lock lock(mutex_);
    std::erase(meeting.unfinished, rank);
    auto const all_finished = [&] { return meeting.unfinished.empty(); };
    if (all_finished()) return meeting.changed.notify_all();
    auto const wait = [&](std::chrono::milliseconds time, auto const& condition) {
      for (patience limit(time); !condition() && !limit.is_over();)
        meeting.changed.wait_until(lock, limit.next_check(), condition);
    };
    auto const leaving_entry = leaving_.insert(leaving_.end(), &meeting);
    wait(options_.deadline.get(), [&] { return all_finished() || reason_; });
    bool const was_aborted = !all_finished() && reason_;
    if (was_aborted) wait(options_.grace, all_finished);
    leaving_.erase(leaving_entry);
    if (all_finished()) return;
    auto const& local = meeting.participants[meeting.position_of(rank)].call_signature;
    auto const message =
        concat(describe(local), " (call ", local.sequence, "): rank ", rank, " waited ",
               seconds(was_aborted ? options_.grace : options_.deadline.get()), " s for ",
               name_ranks(meeting.unfinished), " to finish its part, after all ranks had arrived");
    if (was_aborted) throw aborted(concat(*reason_, "; then ", message));
    abort_locked(message, rank);
    throw timed_out(message);
  }

  void complete(rendezvous& meeting, detail::rendezvous_kind kind) {
    std::vector<signature> signatures;
    for (auto const& participant : meeting.arrived) {
      meeting.participants.push_back(*participant);
      signatures.push_back(participant->call_signature);
    }
    if (kind == detail::rendezvous_kind::collective)
      meeting.mismatch = disagreement(signatures, call_sites::may_differ, meeting.ranks);
    if (kind == detail::rendezvous_kind::message)
      meeting.mismatch =
          message_disagreement(signatures[0], meeting.ranks[0], signatures[1], meeting.ranks[1]);
    if (!meeting.mismatch.empty()) abort_locked(meeting.mismatch);
    meeting.unfinished = meeting.ranks;
    meeting.changed.notify_all();
  }

  void abort_locked(std::string const& reason, std::optional<int> failed_rank = std::nullopt) {
    if (reason_) return;
    reason_ = reason;
    failed_ = failed_rank;
    wake_all();
  }

  void wake_all() {
    for (auto const& [name, meeting] : open_rendezvous_) meeting->changed.notify_all();
    for (auto* const meeting : leaving_) meeting->changed.notify_all();
  }

  // Aborts if a rank has returned for which the rendezvous waits.
  void stop_if_one_returned(rendezvous const& meeting) {
    for (std::size_t i = 0; i < meeting.ranks.size(); ++i) {
      int const rank = meeting.ranks[i];
      if (meeting.arrived[i] || has_returned_[static_cast<std::size_t>(rank)] == 0 ||
          waits_.is_queued(meeting.name, rank))
        continue;
      std::size_t first_arrived = 0;  // position of a rank that has arrived
      while (!meeting.arrived[first_arrived]) ++first_arrived;
      auto const& call_signature = meeting.arrived[first_arrived]->call_signature;
      return abort_locked(concat("rank ", rank, " has returned from its program, but rank ",
                                 meeting.ranks[first_arrived], " waits for it in ",
                                 describe(call_signature), " (call ", call_signature.sequence,
                                 "); all ranks must make the same calls in the same order"));
    }
  }

  // Aborts if the wait of `worker` closes a cycle; the threads in it throw the message. A rank that
  // has given up leaves every cycle by itself.
  void stop_if_deadlocked(std::thread::id worker) {
    if (reason_ || first_abandonment_) return;
    auto const found = waits_.cycle_of(worker);
    if (!found) return;
    deadlocked_ = found->threads;
    abort_locked(found->message);
  }

  static double seconds(std::chrono::milliseconds time) {
    return static_cast<double>(time.count()) / 1000.0;
  }

  std::string whereabouts_locked(int rank) const {
    auto const calls = waits_.calls_of(rank);
    return calls.empty() ? "is in no collective" : "waits in " + calls;
  }

  // The message that names the missing ranks, and the calls in which the ranks of the world wait.
  std::string overdue(rendezvous const& meeting, int rank, signature const& local) const {
    std::vector<int> missing;
    std::string other_ranks;
    for (int other = 0; other < size_; ++other) {
      auto const participant = meeting.position_of(other);
      bool const late = participant < meeting.ranks.size() && !meeting.arrived[participant];
      if (late) missing.push_back(other);
      if (late || (other != rank && !waits_.calls_of(other).empty()))
        other_ranks += concat("; rank ", other, ' ', whereabouts_locked(other));
    }
    return overdue_message(local, rank, options_.deadline.seconds(), missing) + other_ranks;
  }

  int const size_;
  world_options const options_;
  mutable std::mutex mutex_;
  std::vector<char> has_communicator_, has_returned_;          // by rank
  std::map<std::tuple<int, std::uint64_t, int>, int> groups_;  // parent, split, color
  std::map<rendezvous_name, std::shared_ptr<rendezvous>>
      open_rendezvous_;  // at which some but not all ranks have arrived
  detail::wait_graph waits_;
  std::vector<std::thread::id> deadlocked_;
  std::list<rendezvous*> leaving_;  // complete ones, once for each rank that waits to leave
  std::optional<std::string> reason_;
  std::optional<int> failed_;
  std::optional<abandonment> first_abandonment_;
  std::vector<char> has_given_up_;  // by rank
};

}  // namespace parallel::threads
