// threads::run: a program of n ranks as n threads of this process.
//
// What `mpirun -n` is for processes. When one rank throws, the world is aborted so that no other
// rank waits for it, all threads are joined, and the first cause is rethrown (not the errors of the
// ranks that were stopped because of it). A rank that computes for ever hears of no abort, and no
// thread can be ended from outside: when one has not stopped within the grace after the first
// failure, that failure is told at once to world_options::when_stuck, which should end the process.
#pragma once

#include <algorithm>
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
#include <utility>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/threads/communicator.hpp>
#include <parallel/comm/threads/world.hpp>

namespace parallel::threads {

namespace detail {

/// What became of the ranks. Keeps the failure that best tells the cause: of the rank that aborted
/// first, else the first that is no `aborted`, else the first.
class outcome {
 public:
  explicit outcome(world& of) : world_(of) {}

  void starts(int rank) {
    std::scoped_lock const lock(mutex_);
    running_.push_back(rank);
  }
  void ends(int rank) {
    std::scoped_lock const lock(mutex_);
    world_.returned(rank);
    std::erase(running_, rank);
    changed_.notify_all();
  }

  /// Called in a catch block.
  void failed(int rank) {
    auto const reason = message_of_current_exception();
    bool echo = false;
    try {
      throw;
    } catch (aborted const&) {
      echo = true;
    } catch (...) {  // NOLINT(bugprone-empty-catch): a cause
    }
    world_.abort_by(rank, reason);
    int const worth = echo ? 1 : world_.failed_rank() == rank ? 3 : 2;
    std::scoped_lock const lock(mutex_);
    if (!since_) since_ = std::chrono::steady_clock::now();
    changed_.notify_all();
    if (worth <= worth_) return;
    worth_ = worth;
    failure_ = std::current_exception();
    text_ = concat("rank ", rank, " failed: ", reason);
  }

  /// Returns when all have ended; told(sentence) once when some have not `grace` after a failure.
  template <class Told>
  void wait(std::chrono::milliseconds grace, Told const& told) {
    std::unique_lock lock(mutex_);
    auto const over = [&] { return running_.empty(); };
    changed_.wait(lock, [&] { return over() || since_; });
    if (!over() && !changed_.wait_until(lock, *since_ + grace, over)) {
      std::string const sentence = stuck(grace);
      auto const failure = failure_;
      lock.unlock();
      try {
        std::rethrow_exception(failure);
      } catch (...) {
        told(sentence);
      }
      lock.lock();
    }
    changed_.wait(lock, over);
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  [[nodiscard]] std::string stuck(std::chrono::milliseconds grace) const {
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
  int worth_ = 0;
  std::optional<steady_time> since_;  // the first failure
};

/// What happens by default when ranks are stuck.
[[noreturn]] inline void end_process(std::string const& sentence) {
  static_cast<void>(std::fprintf(stderr, "error: %s\n", sentence.c_str()));
  std::_Exit(EXIT_FAILURE);  // destructors would free what the stuck threads use
}

}  // namespace detail

/// Calls `program(communicator&)` once for each of `ranks` ranks, each in a thread of its own, and
/// returns when all have returned. Rethrows the failure that tells the cause. Does not return while
/// a rank is stuck: see world_options::grace and when_stuck.
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
      outcome.failed(rank);
    }
    outcome.ends(rank);
  };
  {
    std::vector<std::jthread> threads;  // joins at the end of the block
    for (int rank = 0; rank < ranks; ++rank) {
      outcome.starts(rank);
      try {
        threads.emplace_back(body, rank);
      } catch (...) {  // the system gives no more threads
        outcome.failed(rank);
        outcome.ends(rank);
        break;
      }
    }
    outcome.wait(options.grace, options.when_stuck ? options.when_stuck : detail::end_process);
  }
  outcome.rethrow();
}

}  // namespace parallel::threads
