// threads::run: runs a program of n ranks as n threads of this process.
//
// It does for threads what `mpirun -n` does for processes. When one rank throws, the world is
// aborted so that no other rank waits for it, all threads are joined, and the error of the cause is
// rethrown (not the errors of ranks that were stopped because of it). A rank that computes for ever
// does not notice an abort, and no thread can be ended from outside: if a rank has not stopped
// within the grace after the first failure, world_options::when_stuck is called with that failure,
// and should end the process.
#pragma once

#include <concepts>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/threads/communicator.hpp>
#include <parallel/comm/threads/world.hpp>

namespace parallel::threads {

namespace detail {

/// The state of the ranks of a run. Keeps the failure that best tells the cause: that of the rank
/// which aborted first, else the first that is not an `aborted`, else the first.
class outcome {
 public:
  explicit outcome(world& shared_world) : world_(shared_world) {}

  void add_running(int rank) {
    std::scoped_lock const lock(mutex_);
    running_.push_back(rank);
  }
  void remove_running(int rank) {
    std::scoped_lock const lock(mutex_);
    world_.record_return(rank);
    std::erase(running_, rank);
    changed_.notify_all();
  }

  /// Called in a catch block.
  void record_failure(int rank) {
    auto const reason = message_of_current_exception();
    bool is_consequence = false;
    try {
      throw;
    } catch (aborted const&) {
      is_consequence = true;
    } catch (...) {  // NOLINT(bugprone-empty-catch): not a consequence of another failure
    }
    world_.abort_by(rank, reason);
    int const priority = is_consequence ? 1 : world_.failed_rank() == rank ? 3 : 2;
    std::scoped_lock const lock(mutex_);
    if (!first_failure_time_) first_failure_time_ = std::chrono::steady_clock::now();
    changed_.notify_all();
    if (priority <= priority_) return;
    priority_ = priority;
    failure_ = std::current_exception();
    text_ = concat("rank ", rank, " failed: ", reason);
  }

  /// Returns when all ranks have ended. Calls report(sentence) once if some ranks have not ended
  /// `grace` after the first failure.
  template <class Report>
  void wait(std::chrono::milliseconds grace, Report const& report) {
    std::unique_lock lock(mutex_);
    auto const all_ended = [&] { return running_.empty(); };
    changed_.wait(lock, [&] { return all_ended() || first_failure_time_; });
    if (!all_ended() && !changed_.wait_until(lock, *first_failure_time_ + grace, all_ended)) {
      std::string const sentence = stuck_ranks_sentence(grace);
      auto const failure = failure_;
      lock.unlock();
      try {
        std::rethrow_exception(failure);
      } catch (...) {
        report(sentence);
      }
      lock.lock();
    }
    changed_.wait(lock, all_ended);
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  [[nodiscard]] std::string stuck_ranks_sentence(std::chrono::milliseconds grace) const {
    std::string out = concat(text_, "; ", static_cast<double>(grace.count()) / 1000.0,
                             " s later these have not stopped:");
    for (int const rank : running_)
      out += concat(rank == running_.front() ? " rank " : ", rank ", rank, ", which ",
                    world_.whereabouts(rank));
    return out;
  }

  world& world_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> running_;  // ranks
  std::exception_ptr failure_;
  std::string text_;
  int priority_ = 0;
  std::optional<steady_time> first_failure_time_;  // empty: no failure yet
};

/// The default of world_options::when_stuck.
[[noreturn]] inline void end_process(std::string const& sentence) {
  static_cast<void>(std::fprintf(stderr, "error: %s\n", sentence.c_str()));
  std::_Exit(EXIT_FAILURE);  // destructors would free what the stuck threads use
}

}  // namespace detail

/// Calls `program(communicator&)` once for each of `ranks` ranks, each in its own thread, and
/// returns when all have returned. Rethrows the failure of the cause. Does not return while a rank
/// is stuck: see world_options::grace and when_stuck.
template <class Program>
requires std::invocable<Program&, communicator&>
void run(int ranks, Program program, world_options options = {}) {
  auto const shared = std::make_shared<world>(ranks, options);
  detail::outcome outcome(*shared);
  auto const body = [&](int rank) {
    try {
      communicator comm(shared, rank);
      program(comm);
    } catch (...) {
      outcome.record_failure(rank);
    }
    outcome.remove_running(rank);
  };
  {
    std::vector<std::jthread> threads;  // joins at the end of the block
    for (int rank = 0; rank < ranks; ++rank) {
      outcome.add_running(rank);
      try {
        threads.emplace_back(body, rank);
      } catch (...) {  // the system cannot create more threads
        outcome.record_failure(rank);
        outcome.remove_running(rank);
        break;
      }
    }
    outcome.wait(options.grace, options.when_stuck ? options.when_stuck : detail::end_process);
  }
  outcome.rethrow();
}

}  // namespace parallel::threads
