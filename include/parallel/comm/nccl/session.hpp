// nccl::session: all of a rank's NCCL communicators, what they are waiting for, and their end.
//
// One thread of the rank at a time is inside NCCL (gate), and no call of it waits for another rank
// (config.blocking = 0): so no thread is inside when the communicators are ended, which is done as
// one group, since one after the other can hang. The watchdog does so when NCCL reports an
// asynchronous error, when another rank has posted a notice, and when an operation takes longer
// than the deadline that was set when it was enqueued, counted from when it was first seen that it
// could begin: the one before it on its communicator was over.
//
// An aborted operation ends on the GPU as if it had run. So whoever waits for one asks the session
// afterwards (abortable::completed), which throws, and nothing can be enqueued any more.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/flight_recorder.hpp>
#include <parallel/comm/nccl/error.hpp>
#include <parallel/comm/nccl/gate.hpp>
#include <parallel/comm/nccl/member.hpp>
#include <parallel/comm/nccl/memory.hpp>
#include <parallel/comm/nccl/notice_board.hpp>
#include <parallel/comm/nccl/options.hpp>
#include <parallel/comm/nccl/watchdog.hpp>
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
      : rank_(rank),
        device_(current_device()),
        options_(options),
        watchdog_(gate_, rank, device_, options, std::move(board),
                  {.see =
                       [this] {
                         require_sound();
                         forget_completed();
                       },
                   .late = [this] { return late(); },
                   .end = [this] { end_all(); }}) {}
  session(session const&) = delete;
  session& operator=(session const&) = delete;

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] std::shared_ptr<flight_recorder> const& recorder() const {
    return options_.recorder;
  }

  /// Throws when the communicators have been ended: `aborted`, or on the rank that has found why
  /// `timed_out` or `error`.
  void throw_if_aborted() const { gate_.check(); }
  [[nodiscard]] std::optional<std::string> abort_reason() const { return gate_.reason(); }

  /// call(), a call or a group of calls of NCCL for the communicators `of`, has succeeded when this
  /// returns: a non-blocking call enqueues nothing before it has.
  template <class Call>
  void run(std::vector<ncclComm_t> const& of, std::string_view name, Call&& call,
           call_site where = call_site::current()) {
    {
      auto const inside = gate_.enter(name);
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
    auto& made = [&]() -> made_one& {
      auto const inside = gate_.enter(call);
      auto& out = made_.emplace_back();
      check(make(&out.comm, &config), call, nullptr, where);
      return out;
    }();
    if (parent != nullptr) settle(parent, call, where);
    patience limit(options_.deadline.get());
    while (made.comm == nullptr) {  // NCCL writes it before it is ready
      throw_if_aborted();
      if (limit.over()) fail<timed_out>(call, " at ", where, ": not all ranks came");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    auto const out = [&] {
      auto const inside = gate_.enter(call);
      made.is_kept = true;
      return keep(made.comm, std::move(name));
    }();
    settle(made.comm, call, where);
    return out;
  }

  /// Of one rank.
  [[nodiscard]] std::shared_ptr<member> alone(std::string name) {
    return keep(nullptr, std::move(name));
  }

  /// `one`, a call of `of`, is watched until it has run.
  void expect(member& of, pending one) {
    one.deadline = options_.deadline.get();
    of.waiting.add(std::move(one));
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
    watchdog_.end(concat("rank ", rank_, " failed: ", problem), problem);
  }

  /// The others are told by whoever catches it, who knows better why.
  void give_up(int /*rank*/, std::string const& reason) override { watchdog_.end(reason); }

  void completed() override {
    forget_completed();
    throw_if_aborted();
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

  [[nodiscard]] static int current_device() {
    int out = 0;
    cuda::check(cudaGetDevice(&out), "cudaGetDevice");
    return out;
  }

  [[nodiscard]] std::shared_ptr<member> keep(ncclComm_t comm, std::string name) {
    std::shared_ptr<member> const kept(new member{comm, std::move(name)});
    {
      std::scoped_lock const lock(mutex_);
      members_.push_back(kept);
    }
    return {kept.get(), [self = shared_from_this()](member* m) { self->end(m); }};
  }

  [[nodiscard]] std::vector<std::shared_ptr<member>> members() const {
    std::scoped_lock const lock(mutex_);
    return members_;
  }

  /// Where NCCL writes a communicator, or nothing, up to the end of an abort.
  struct made_one {
    ncclComm_t comm = nullptr;
    bool is_kept = false;  // by a member
  };

  /// Waits until the communicator is no longer in progress: most calls are over within some tens of
  /// microseconds, and a sleep takes longer than it is asked for.
  void settle(ncclComm_t comm, std::string_view name, call_site where) {
    auto const deadline = options_.deadline.get();
    patience limit(deadline);
    auto const spins_until = steady_time::clock::now() + std::chrono::microseconds(100);
    for (int asked = 1;; ++asked) {
      {
        auto const inside = gate_.enter(name);
        ncclResult_t state = ncclSuccess;
        check(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", comm, where);
        check(state, name, comm, where);
        if (state == ncclSuccess) return;
      }
      auto const now = steady_time::clock::now();
      if (limit.over(now))
        fail<timed_out>(name, " at ", where, ": other ranks have not come within ",
                        static_cast<double>(deadline.count()) / 1000, " s");
      if (asked < 16 || now < spins_until)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  /// Throws what NCCL reports of a communicator.
  void require_sound() {
    for (auto const& one : members()) {
      auto const inside = gate_.try_enter("ncclCommGetAsyncError");
      if (!inside) return;  // it is looked again
      auto const state = one->state();
      if (state == ncclSuccess || state == ncclInProgress) continue;
      char const* const words = ncclGetLastError(one->comm);
      auto const first = one->waiting.first(one->name);
      fail("NCCL ", version(), ": ", ncclGetErrorString(state), words == nullptr ? "" : "; ",
           words == nullptr ? "" : words,
           first ? concat(", while rank ", rank_, " waited for ", *first) : "");
    }
  }

  /// What has waited for too long, as far as it is known what has run.
  [[nodiscard]] std::string late() {
    auto const now = steady_time::clock::now();
    for (auto const& one : members())
      if (auto const late = one->waiting.late(now, one->name))
        return concat("rank ", rank_, " has waited ",
                      static_cast<double>(late->deadline.count()) / 1000, " s for ", late->text,
                      "; another rank has not come to it, or the network does not carry it");
    std::scoped_lock const lock(mutex_);
    if (destroying_ && destroying_->over())
      return concat("rank ", rank_, " has waited ", options_.deadline.seconds(),
                    " s in ncclCommDestroy; another rank of its machine has not ended its "
                    "communicator");
    return {};
  }

  /// Communicators end as one group. Those in progress come last: their abort waits for a call that
  /// has not returned, maybe behind another communicator's kernel.
  void end_all() {
    auto const inside = gate_.enter_to_end("ncclCommAbort");
    is_aborting_ = true;
    static_cast<void>(ncclGroupStart());
    for (bool const all : {false, true})
      for (auto const& one : members())
        if (one->comm != nullptr && (all || one->state() != ncclInProgress))
          static_cast<void>(ncclCommAbort(one->comm.exchange(nullptr)));
    for (auto& one : made_)
      if (!one.is_kept && one.comm != nullptr)
        static_cast<void>(ncclCommAbort(std::exchange(one.comm, nullptr)));
    static_cast<void>(ncclGroupEnd());
  }

  /// Asks CUDA. What ends once an abort has begun has not run.
  void forget_completed() {
    for (auto const& one : members())
      one->waiting.forget_completed([this] { return is_aborting_.load(); });
  }

  /// Of a member that nobody uses any more: what it was given runs, then it is finalised, unless an
  /// exception is on its way, since then other ranks may never come. Its memory is freed when the
  /// ranks on its machine have finalised theirs: ranks end their communicators in the same order.
  void end(member* m) {
    if (std::uncaught_exceptions() > 0)
      watchdog_.end(concat("an exception left rank ", rank_, " and its communicators"));
    drain(*m);
    m->waiting.finish(!is_aborting_);
    auto const until = steady_time::clock::now() + options_.deadline.get();
    auto [comm, state] = take_away(*m);
    if (comm == nullptr) return;
    while (state == ncclInProgress && !gate_.is_closed() && steady_time::clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      auto const inside = gate_.enter_to_end("ncclCommGetAsyncError");
      if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) break;
    }
    auto const inside = gate_.enter_to_end("ncclCommDestroy");
    if (state == ncclSuccess) {
      watch_destroy(true);
      static_cast<void>(ncclCommDestroy(comm));
      watch_destroy(false);
      return;
    }
    static_cast<void>(ncclGroupStart());
    static_cast<void>(ncclCommAbort(comm));
    static_cast<void>(ncclGroupEnd());
  }

  /// A member's communicator, which is finalised and the caller's from now on; null: it has been
  /// aborted, or is none.
  [[nodiscard]] std::pair<ncclComm_t, ncclResult_t> take_away(member& m) {
    auto const inside = enter_to_end("ncclCommFinalize");
    ncclComm_t const comm = m.comm.exchange(nullptr);
    {
      std::scoped_lock const lock(mutex_);
      std::erase_if(members_, [&](auto const& one) { return one.get() == &m; });
    }
    return {comm, comm == nullptr ? ncclSuccess : ncclCommFinalize(comm)};
  }

  /// For a call that ends something of one communicator: where all are to end, when they have.
  [[nodiscard]] gate::pass enter_to_end(std::string_view call) {
    for (;;) {
      if (gate_.is_closed()) watchdog_.end({});
      auto inside = gate_.enter_to_end(call);
      if (!gate_.is_closed() || is_aborting_) return inside;
    }
  }

  /// Notes that this thread is, or was, in ncclCommDestroy, which waits for other ranks.
  void watch_destroy(bool begins) {
    std::scoped_lock const lock(mutex_);
    destroying_.reset();
    if (begins) destroying_.emplace(options_.deadline.get());
  }

  /// Waits for what has been enqueued on `m`.
  static void drain(member const& m) {
    for (auto const& one : m.waiting.events()) static_cast<void>(cudaEventSynchronize(one.get()));
  }

  /// An aborted communicator has no registrations any more.
  template <class End>
  void deregister(member const& of, void* registered, End const& end) {
    static_cast<void>(cudaSetDevice(device_));
    drain(of);
    auto const inside = enter_to_end("ncclCommDeregister");
    if (ncclComm_t const comm = of.comm; comm != nullptr) static_cast<void>(end(comm, registered));
  }

  int const rank_;
  int const device_;
  communicator_options const options_;
  std::shared_ptr<memory> const memory_ = std::make_shared<memory>();
  gate gate_;
  std::atomic<bool> is_aborting_ = false;
  std::deque<made_one> made_;  // used by who is inside NCCL
  mutable std::mutex mutex_;   // of what follows; held inside no call of CUDA or NCCL
  std::vector<std::shared_ptr<member>> members_;
  std::optional<patience> destroying_;
  watchdog watchdog_;  // uses all of the above
};

}  // namespace parallel::nccl
