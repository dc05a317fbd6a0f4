// nccl::session: all of a rank's NCCL communicators, what they are waiting for, and their end.
//
// Every call of NCCL is made under one mutex, and none of them blocks (config.blocking = 0): so no
// thread is inside NCCL when the watchdog ends the communicators, which it does as one group, since
// one after the other can hang. It does so when NCCL reports an asynchronous error, when another
// rank has posted a notice, and when an operation takes longer than the deadline that was set when
// it was enqueued, counted from when the watchdog first saw that it could begin: the one before it
// on its communicator was over.
//
// An aborted operation ends on the GPU as if it had run. So whoever waits for one asks the session
// afterwards (abortable::completed), which throws, and nothing can be enqueued any more.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/flight_recorder.hpp>
#include <parallel/comm/nccl/error.hpp>
#include <parallel/comm/nccl/member.hpp>
#include <parallel/comm/nccl/memory.hpp>
#include <parallel/comm/nccl/notice_board.hpp>
#include <parallel/comm/nccl/options.hpp>
#include <parallel/comm/registered_memory.hpp>
#include <parallel/comm/request.hpp>
#include <parallel/core/clock.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/patience.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/device/exchanged_memory.hpp>

namespace parallel::nccl {

class session final : public parallel::detail::abortable,
                      public std::enable_shared_from_this<session> {
 public:
  /// Of the current device, for the rank that the world calls `rank`. `board`: null: others learn
  /// of an abort by their deadlines.
  session(int rank, communicator_options options, std::shared_ptr<notice_board> board)
      : rank_(rank), options_(options), board_(std::move(board)) {
    cuda::check(cudaGetDevice(&device_), "cudaGetDevice");
    watchdog_ = std::thread([this] { watch(); });
  }
  session(session const&) = delete;
  session& operator=(session const&) = delete;
  ~session() {
    {
      std::scoped_lock const lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    watchdog_.join();
  }

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] std::shared_ptr<flight_recorder> const& recorder() const {
    return options_.recorder;
  }

  /// Throws when the communicators have been ended: `aborted`, or on the rank that has found why
  /// `timed_out` or `error`.
  void throw_if_aborted() {
    std::scoped_lock const lock(mutex_);
    throw_if_ended();
  }
  [[nodiscard]] std::optional<std::string> abort_reason() {
    std::scoped_lock const lock(mutex_);
    return reason_;
  }

  /// call(), a call or a group of calls of NCCL for the communicators `of`, has succeeded when this
  /// returns: a non-blocking call enqueues nothing before it has.
  template <class Call>
  void run(std::vector<ncclComm_t> const& of, std::string_view name, Call&& call,
           call_site where = call_site::current()) {
    {
      std::scoped_lock const lock(mutex_);
      throw_if_ended();
      check(call(), name, of.empty() ? nullptr : of.front(), where);
    }
    for (ncclComm_t const comm : of) settle(comm, name, where);
  }

  /// Makes a communicator by make(ncclComm_t*, config), which all its ranks call, out of `parent`
  /// where that is not null. Blocks until both are ready, at most until the deadline.
  template <class Make>
  [[nodiscard]] std::shared_ptr<member> make(std::string name, std::string_view call,
                                             ncclComm_t parent, Make&& make,
                                             call_site where = call_site::current()) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    auto& made = [&]() -> ncclComm_t& {
      std::scoped_lock const lock(mutex_);
      throw_if_ended();
      auto& out = made_.emplace_back(nullptr);
      check(make(&out, &config), call, nullptr, where);
      return out;
    }();
    if (parent != nullptr) settle(parent, call, where);
    patience limit(options_.deadline.get());
    while (made == nullptr) {  // NCCL writes it before it is ready
      throw_if_aborted();
      if (limit.over()) fail<timed_out>(call, " at ", where, ": not all ranks came");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    auto out = keep(made, std::move(name));  // from now on it is ended whatever happens
    settle(made, call, where);
    return out;
  }

  /// Where NCCL may write of a communicator that is none.
  [[nodiscard]] ncclComm_t* place_of_none() {
    std::scoped_lock const lock(mutex_);
    return &made_.emplace_back(nullptr);
  }

  /// Of one rank.
  [[nodiscard]] std::shared_ptr<member> alone(std::string name) {
    return keep(nullptr, std::move(name));
  }

  /// `one`, a call of `of`, is watched until it has run.
  void expect(member& of, pending one) {
    std::scoped_lock const lock(mutex_);
    one.deadline = options_.deadline.get();
    of.waiting.push_back(std::move(one));
  }

  /// Where exchanged memory comes from.
  [[nodiscard]] memory_source exchanged_memory() const {
    return {[from = memory_](std::size_t bytes) { return from->allocate(bytes); },
            options_.least_window_bytes};
  }

  /// Registers `memory` with `of`, which is not ended before the registration is. An abort ends
  /// that too. Waits for the other ranks where the memory is NCCL's, which is then a window.
  [[nodiscard]] registered_memory register_memory(std::shared_ptr<member> const& of,
                                                  buffer<std::byte> const& memory,
                                                  call_site where = call_site::current()) {
    cuda::device_scope const scope(device_);
    if (auto window = register_window(of, memory, where)) return window;
    void* handle = nullptr;
    run(
        {of->comm}, "ncclCommRegister",
        [&] { return ncclCommRegister(of->comm, memory.data(), memory.size(), &handle); }, where);
    if (handle == nullptr) return {};
    return until(of, memory, handle, [](ncclComm_t comm, void* registered) {
      return ncclCommDeregister(comm, registered);
    });
  }

  /// Since this rank failed by `problem`.
  void abort(std::string const& problem) override {
    std::unique_lock lock(mutex_);
    end_all(concat("rank ", rank_, " failed: ", problem));
    tell(lock, problem);
  }

  void give_up(int rank, std::string const& reason) override {
    std::scoped_lock const lock(mutex_);
    static_cast<void>(rank);
    end_all(reason);  // the others are told by whoever catches it, who knows better why
  }

  void completed() override {
    std::scoped_lock const lock(mutex_);
    forget_completed();
    throw_if_ended();
  }

 private:
  /// Empty: the memory is not of ncclMemAlloc, or the driver or NCCL_WIN_ENABLE=0 has no windows.
  [[nodiscard]] registered_memory register_window(std::shared_ptr<member> const& of,
                                                  buffer<std::byte> const& memory,
                                                  call_site where) {
    if (!memory_->gave(memory.data())) return {};
    auto& window = of->windows.emplace_back(nullptr);
    run(
        {of->comm}, "ncclCommWindowRegister",
        [&] {
          return ncclCommWindowRegister(of->comm, memory.data(), memory.size(), &window,
                                        NCCL_WIN_COLL_SYMMETRIC);
        },
        where);
    if (window == nullptr) return {};
    return until(of, memory, window, [](ncclComm_t comm, void* registered) {
      return ncclCommWindowDeregister(comm, static_cast<ncclWindow_t>(registered));
    });
  }

  /// Keeps a registration, its memory and its communicator until end(communicator, handle).
  template <class End>
  [[nodiscard]] registered_memory until(std::shared_ptr<member> const& of,
                                        buffer<std::byte> const& memory, void* handle, End end) {
    return {handle, [self = shared_from_this(), of, owner = memory.owner(), end](void* registered) {
              self->deregister(*of, registered, end);
            }};
  }

  void throw_if_ended() const {
    if (!reason_) return;
    if (is_late_) throw timed_out(*reason_);
    if (found_here_) throw error(*reason_);
    throw aborted(*reason_);
  }

  [[nodiscard]] std::shared_ptr<member> keep(ncclComm_t comm, std::string name) {
    std::shared_ptr<member> out(new member{comm, std::move(name)},
                                [self = shared_from_this()](member* m) { self->end(m); });
    std::scoped_lock const lock(mutex_);
    members_.push_back(out.get());
    return out;
  }

  /// Waits until the communicator is no longer in progress.
  void settle(ncclComm_t comm, std::string_view name, call_site where) {
    auto const deadline = options_.deadline.get();
    patience limit(deadline);
    for (;;) {
      {
        std::scoped_lock const lock(mutex_);
        throw_if_ended();
        ncclResult_t state = ncclSuccess;
        check(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", comm, where);
        check(state, name, comm, where);
        if (state == ncclSuccess) return;
      }
      if (limit.over())
        fail<timed_out>(name, " at ", where, ": other ranks have not come within ",
                        static_cast<double>(deadline.count()) / 1000, " s");
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  void watch() {
    static_cast<void>(cudaSetDevice(device_));
    std::unique_lock lock(mutex_);
    while (!ending_) {
      changed_.wait_for(lock, std::min(options_.look_every, patience::pause));
      if (reason_) continue;
      if (board_) {
        lock.unlock();  // it has locks of its own
        auto const told = board_->read();
        lock.lock();
        if (told) {
          is_told_ = true;
          end_all(*told);
          continue;
        }
      }
      auto const problem = problem_now();
      if (problem.empty() || reason_) continue;
      found_here_ = true;
      end_all(concat("rank ", rank_, " failed: ", problem));
      tell(lock, problem);
      lock.lock();
    }
  }

  /// Tells the other ranks, unless they know already; lets go of the lock.
  void tell(std::unique_lock<std::mutex>& lock, std::string const& problem) {
    bool const told = std::exchange(is_told_, true);
    lock.unlock();
    if (told || !board_) return;
    try {
      board_->post(rank_, problem);
    } catch (...) {  // NOLINT(bugprone-empty-catch): their deadlines will tell them
    }
  }

  [[nodiscard]] std::string problem_now() {
    try {
      forget_completed();
    } catch (error const& problem) {
      return problem.what();
    }
    return look();
  }

  /// What is wrong with a communicator; empty: nothing.
  [[nodiscard]] std::string look() {
    auto const now = steady_time::clock::now();
    for (member* const one : members_) {
      auto const state = one->state();
      if (state != ncclSuccess && state != ncclInProgress) {
        char const* const words = ncclGetLastError(one->comm);
        return concat("NCCL ", version(), ": ", ncclGetErrorString(state),
                      words == nullptr ? "" : "; ", words == nullptr ? "" : words,
                      one->waiting.empty()
                          ? std::string()
                          : concat(", while rank ", rank_, " waited for ", one->text_of_first()));
      }
      if (one->waiting.empty()) continue;
      auto& first = one->waiting.front();
      if (!first.limit) first.limit.emplace(first.deadline, now);
      if (!first.limit->over(now)) continue;
      is_late_ = true;
      return concat("rank ", rank_, " has waited ",
                    static_cast<double>(first.deadline.count()) / 1000, " s for ",
                    one->text_of_first(),
                    "; another rank has not come to it, or the network does not carry it");
    }
    return {};
  }

  /// Communicators end as one group.
  void end_all(std::string const& reason) {
    if (reason_) return;
    try {  // what ends from now on has not run
      forget_completed();
    } catch (error const&) {  // NOLINT(bugprone-empty-catch): of the GPU, which others tell
    }
    reason_ = reason;
    // an abort waits for a call that has not returned, maybe behind another communicator's kernel
    static_cast<void>(ncclGroupStart());
    for (bool const all : {false, true})
      for (member* const one : members_)
        if (one->comm != nullptr && (all || one->state() != ncclInProgress))
          static_cast<void>(ncclCommAbort(std::exchange(one->comm, nullptr)));
    static_cast<void>(ncclGroupEnd());
  }

  void forget_completed() {
    for (member* const one : members_) one->forget_completed(!reason_);
  }

  /// Of a member that nobody uses any more: what it was given runs, then it is finalised, unless an
  /// exception is on its way, since then other ranks may never come.
  void end(member* m) {
    std::unique_ptr<member> const owned(m);
    std::unique_lock lock(mutex_);
    if (std::uncaught_exceptions() > 0)
      end_all(concat("an exception left rank ", rank_, " and its communicators"));
    drain(*m, lock);
    for (auto const& one : m->waiting)
      if (!reason_) one.notes.now(call_state::done);
    std::erase(members_, m);
    if (m->comm == nullptr) return;
    auto const until = steady_time::clock::now() + options_.deadline.get();
    ncclResult_t state = ncclCommFinalize(m->comm);
    while (state == ncclInProgress && steady_time::clock::now() < until) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      lock.lock();
      if (ncclCommGetAsyncError(m->comm, &state) != ncclSuccess) break;
    }
    static_cast<void>(state == ncclSuccess ? ncclCommDestroy(m->comm) : ncclCommAbort(m->comm));
  }

  /// Waits, without the lock, for what has been enqueued on `m`.
  static void drain(member const& m, std::unique_lock<std::mutex>& lock) {
    std::vector<cuda::event> left;  // of their own: the watchdog takes away what has run
    for (auto const& one : m.waiting) left.push_back(one.done);
    lock.unlock();
    for (auto const& one : left) static_cast<void>(cudaEventSynchronize(one.get()));
    lock.lock();
  }

  /// An aborted communicator has no registrations any more.
  template <class End>
  void deregister(member const& of, void* registered, End const& end) {
    static_cast<void>(cudaSetDevice(device_));
    std::unique_lock lock(mutex_);
    drain(of, lock);
    if (of.comm != nullptr) static_cast<void>(end(of.comm, registered));
  }

  int const rank_;
  int device_ = 0;
  communicator_options const options_;
  std::shared_ptr<notice_board> const board_;
  std::shared_ptr<memory> const memory_ = std::make_shared<memory>();
  std::mutex mutex_;  // of NCCL, and of what follows
  std::condition_variable changed_;
  bool ending_ = false;
  std::optional<std::string> reason_;
  bool found_here_ = false;      // by this rank's watchdog
  bool is_late_ = false;         // since it has waited to the deadline
  bool is_told_ = false;         // the other ranks know
  std::deque<ncclComm_t> made_;  // where NCCL writes them, or nothing, up to the end of an abort
  std::vector<member*> members_;
  std::thread watchdog_;
};

}  // namespace parallel::nccl
