// threads::run: a program of n ranks as n threads of this process.
//
// What `mpirun -n` is for processes. When one rank throws, the world is aborted so that no other
// rank waits for it, all threads are joined, and the first cause is rethrown (not the errors of the
// ranks that were stopped because of it).
#pragma once

#include <concepts>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/threads/communicator.hpp>
#include <parallel/comm/threads/world.hpp>

namespace parallel::threads {

namespace detail {

// Keeps the first exception that is a cause, or else the first.
class first_failure {
 public:
  // Called in a catch block.
  void take(int rank, world& of) {
    std::string reason = "something that is no std::exception";
    bool cause = true;
    try {
      throw;
    } catch (aborted const& stopped) {
      cause = false;
      reason = stopped.what();
    } catch (std::exception const& thrown) {
      reason = thrown.what();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the reason stands above
    }
    {
      std::scoped_lock const lock(mutex_);
      if (!first_ || (cause && !is_cause_)) {
        first_ = std::current_exception();
        is_cause_ = cause;
      }
    }
    of.abort(concat("rank ", rank, " failed: ", reason));
  }

  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
  bool is_cause_ = false;
};

}  // namespace detail

/// Calls `program(communicator&)` once for each of `ranks` ranks, each in a thread of its own, and
/// returns when all have returned. Rethrows the first failure.
template <class Program>
requires std::invocable<Program&, communicator&>
void run(int ranks, Program program, world_options options = {}) {
  auto const shared = std::make_shared<world>(ranks, options);
  detail::first_failure failure;
  auto const body = [&](int rank) {
    try {
      communicator comm(shared, rank);
      program(comm);
    } catch (...) {
      failure.take(rank, *shared);
    }
  };
  {
    std::vector<std::jthread> threads;  // joins at the end of the block
    try {
      for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
    } catch (...) {  // the system gives no more threads
      shared->abort("could not start all ranks");
      throw;
    }
  }
  failure.rethrow();
}

}  // namespace parallel::threads
