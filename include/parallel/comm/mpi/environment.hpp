// mpi::environment: MPI is initialised and finalised, once, by the thread that owns this object.
//
// MPI is then called from several threads (the owner, and the workers of communication streams) but
// never at the same time: every call holds the environment's mutex. This needs
// MPI_THREAD_SERIALIZED; MPI_THREAD_FUNNELED does not suffice, because a stream's worker is not the
// thread that initialises MPI.
#pragma once

#include <chrono>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include <mpi.h>

#include <parallel/comm/mpi/launched_count.hpp>
#include <parallel/core/error.hpp>

namespace parallel::mpi {

/// Throws `error` with MPI's text for `code` unless `code` is MPI_SUCCESS.
inline void check(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(call, " failed: ", std::string_view(text, static_cast<std::size_t>(length)));
}

/// Make one at the beginning of main; it must outlive all mpi communicators and the streams on
/// which they are used.
class environment {
 public:
  /// Initialises MPI. Throws `error` when it was initialised before, when this MPI library cannot
  /// be called from more than one thread, or when a launcher has started several processes that MPI
  /// does not connect.
  environment() : initial_exceptions_(std::uncaught_exceptions()) {
    int was_initialised = 0;
    MPI_Initialized(&was_initialised);
    require(was_initialised == 0,
            "mpi::environment: MPI is already initialised; make one environment in main, and no "
            "other call of MPI_Init");
    int provided = MPI_THREAD_SINGLE;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_SERIALIZED) {
      MPI_Finalize();
      fail("mpi::environment: this MPI library provides thread level ", provided,
           ", but communication runs on worker threads and needs MPI_THREAD_SERIALIZED (",
           static_cast<int>(MPI_THREAD_SERIALIZED),
           "); use an MPI library built with thread support");
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    auto const launched = count_launched([](char const* name) { return std::getenv(name); });
    if (size_ > 1 || launched.processes == 1) return;
    MPI_Finalize();
    fail(
        "mpi::environment: ", launched.variable, " says that ", launched.processes,
        " processes were started, but MPI_Comm_size is 1, so that each would do all of the work by "
        "itself; start them by the mpirun of the MPI library that this program was built with, or, "
        "if this process is meant to run alone, unset ",
        launched.variable);
  }

  environment(environment&&) = delete;

  /// Finalises MPI when all ranks have ended their communicators. Finalising could block for ever
  /// when an exception leaves the scope, or when an operation was given up while MPI still worked
  /// on it. In these cases all ranks are ended after a second, in which the other ranks can report
  /// the failure too: at the exit of this process, with status 1, when an exception leaves the
  /// scope, so that the code that catches it can print the reason; else by the destructor.
  ~environment() {
    if (std::uncaught_exceptions() > initial_exceptions_ && std::atexit(&end_after_a_second) == 0)
      return;
    if (is_stuck_) end_after_a_second();
    for (int all_done = 0;; std::this_thread::sleep_for(std::chrono::microseconds(100))) {
      MPI_Testall(static_cast<int>(unfinished_.size()), unfinished_.data(), &all_done,
                  MPI_STATUSES_IGNORE);
      if (all_done != 0) break;
    }
    MPI_Finalize();
  }

  /// The rank of this process among all that mpirun started.
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Ends the processes of all ranks: for a program that has reported its error and cannot go on.
  [[noreturn]] void end_all_ranks(int exit_code) {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::abort();
  }

  /// The mutex that a thread holds while it calls MPI.
  [[nodiscard]] std::mutex& mutex() { return mutex_; }

  /// Notes that an operation was given up which MPI has not finished. Call with the mutex held.
  void note_stuck() { is_stuck_ = true; }
  [[nodiscard]] bool is_stuck() const { return is_stuck_; }

  /// Takes over requests that outlive their creator; the destructor waits for them. The requests
  /// have no buffers, and every rank makes the matching requests before it ends. Call with the
  /// mutex held.
  void finish_before_end(std::span<MPI_Request const> requests) {
    unfinished_.insert(unfinished_.end(), requests.begin(), requests.end());
  }

 private:
  static void end_after_a_second() {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  int initial_exceptions_;
  std::mutex mutex_;
  bool is_stuck_ = false;
  std::vector<MPI_Request> unfinished_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace parallel::mpi
