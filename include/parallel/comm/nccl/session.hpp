// nccl::session: all of a rank's NCCL communicators, the calls they wait for, and their end.
//
// One thread of the rank at a time is inside NCCL (gate), and no NCCL call waits for another rank
// (config.blocking = 0). Therefore no thread is inside when the communicators are ended, which is
// done as one group, since ending one after the other can hang. The watchdog ends them when NCCL
// reports an asynchronous error, when another rank has posted a notice, and when an operation takes
// longer than the deadline that was set when it was enqueued; its time begins when the watchdog
// sees that the previous operation on its communicator has completed.
//
// On the GPU an aborted operation ends as if it had run. After a wait for an operation the session
// is therefore asked (abortable::collect_completed), which throws after an abort, and nothing can
// be enqueued any more.
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
#include <parallel/comm/flight/flight_recorder.hpp>
#include <parallel/comm/nccl/error.hpp>
#include <parallel/comm/nccl/gate.hpp>
#include <parallel/comm/nccl/memory.hpp>
#include <parallel/comm/nccl/notice_board.hpp>
#include <parallel/comm/nccl/options.hpp>
#include <parallel/comm/nccl/waiting_calls.hpp>
#include <parallel/comm/nccl/watchdog.hpp>
#include <parallel/comm/registered_memory.hpp>
#include <parallel/comm/request.hpp>
#include <parallel/core/clock.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/patience.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/device/cuda/stream.hpp>

namespace parallel::nccl {

class session final : public parallel::abortable, public std::enable_shared_from_this<session> {
 public:
  /// For the current device and the world rank `rank`. Without a `board` (null) the other ranks
  /// notice an abort only at their deadlines.
  session(int rank, communicator_options options, std::shared_ptr<notice_board> board)
      : rank_(rank),
        device_(current_device()),
        options_(options),
        watchdog_(gate_, rank, device_, options, std::move(board),
                  {.poll =
                       [this] {
                         require_sound();
                         forget_completed();
                       },
                   .overdue = [this] { return overdue_call(); },
                   .end_all = [this] { end_all(); }}) {}
  session(session&&) = delete;

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] std::shared_ptr<flight_recorder> const& recorder() const {
    return options_.recorder;
  }

  /// Throws when the communicators have been ended: `aborted`, or on the rank that has found the
  /// reason `timed_out` or `error`.
  void throw_if_aborted() const { gate_.check(); }
  [[nodiscard]] std::optional<std::string> abort_reason() const { return gate_.reason(); }

  /// Makes call(), one call or a group of calls of NCCL for the communicators `comms`, and returns
  /// when it has succeeded: a non-blocking call enqueues nothing before that.
  template <class Call>
  void run(std::vector<ncclComm_t> const& comms, std::string_view name, Call&& call,
           call_site caller = call_site::current()) {
    {
      auto const inside = gate_.enter(name);
      check(call(), name, comms.empty() ? nullptr : comms.front(), caller);
    }
    for (ncclComm_t const comm : comms) settle(comm, name, caller);
  }

  /// Makes a communicator by make(ncclComm_t*, config), which all its ranks call, from `parent`
  /// unless that is null. Blocks until both are ready, at most until the deadline.
  template <class Make>
  [[nodiscard]] std::shared_ptr<member> make(std::string name, std::string_view call,
                                             ncclComm_t parent, Make&& make,
                                             call_site caller = call_site::current()) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    auto& created = [&]() -> created_communicator& {
      auto const inside = gate_.enter(call);
      auto& out = created_.emplace_back();
      check(make(&out.comm, &config), call, nullptr, caller);
      return out;
    }();
    if (parent != nullptr) settle(parent, call, caller);
    patience limit(options_.deadline.get());
    while (created.comm == nullptr) {  // NCCL writes it before it is ready
      throw_if_aborted();
      if (limit.is_over()) fail<timed_out>(call, " at ", caller, ": not all ranks came");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    auto const out = [&] {
      auto const inside = gate_.enter(call);
      created.is_owned = true;
      return keep(created.comm, std::move(name));
    }();
    settle(created.comm, call, caller);
    return out;
  }

  /// Adds a communicator of one rank.
  [[nodiscard]] std::shared_ptr<member> add_single(std::string name) {
    return keep(nullptr, std::move(name));
  }

  /// Watches `call`, which was made on `owner`, until it has run.
  void expect(member& owner, pending_call call) {
    call.deadline = options_.deadline.get();
    owner.waiting.add(std::move(call));
  }

  [[nodiscard]] memory_source exchanged_memory() const {
    return {[source = memory_](std::size_t bytes) { return source->allocate(bytes); },
            options_.least_window_bytes};
  }

  /// Registers `memory` with `owner`, which lives at least as long as the registration. An abort
  /// also ends the registration. Waits for the other ranks if NCCL allocated the memory, which then
  /// becomes a window.
  [[nodiscard]] registered_memory register_memory(std::shared_ptr<member> const& owner,
                                                  buffer<std::byte> const& memory,
                                                  call_site caller = call_site::current()) {
    cuda::device_scope const scope(device_);
    if (auto window = register_window(owner, memory, caller)) return window;
    void* handle = nullptr;
    run(
        {owner->comm}, "ncclCommRegister",
        [&] { return ncclCommRegister(owner->comm, memory.data(), memory.size(), &handle); },
        caller);
    if (handle == nullptr) return {};
    return keep_registration(owner, memory, handle, [](ncclComm_t comm, void* registered) {
      return ncclCommDeregister(comm, registered);
    });
  }

  /// Aborts because this rank failed with `problem`.
  void abort(std::string const& problem) override {
    watchdog_.end(concat("rank ", rank_, " failed: ", problem), problem);
  }

  /// The other ranks learn the reason from the code that catches the exception, which knows it
  /// better.
  void give_up(int /*rank*/, std::string const& reason) override { watchdog_.end(reason); }

  void collect_completed() override {
    forget_completed();
    throw_if_aborted();
  }

 private:
  /// Returns nothing if the memory is not of ncclMemAlloc, or if the driver or NCCL_WIN_ENABLE=0
  /// does not allow windows.
  [[nodiscard]] registered_memory register_window(std::shared_ptr<member> const& owner,
                                                  buffer<std::byte> const& memory,
                                                  call_site caller) {
    if (!memory_->contains_allocation(memory.data())) return {};
    auto& window = owner->windows.emplace_back(nullptr);
    run(
        {owner->comm}, "ncclCommWindowRegister",
        [&] {
          return ncclCommWindowRegister(owner->comm, memory.data(), memory.size(), &window,
                                        NCCL_WIN_COLL_SYMMETRIC);
        },
        caller);
    if (window == nullptr) return {};
    return keep_registration(owner, memory, window, [](ncclComm_t comm, void* registered) {
      return ncclCommWindowDeregister(comm, static_cast<ncclWindow_t>(registered));
    });
  }

  /// Keeps a registration, its memory and its communicator until end(communicator, handle).
  template <class End>
  [[nodiscard]] registered_memory keep_registration(
      std::shared_ptr<member> const& registered_member, buffer<std::byte> const& memory,
      void* handle, End end) {
    return {handle,
            [self = shared_from_this(), registered_member, owner = memory.owner(),
             end](void* registered) { self->deregister(*registered_member, registered, end); }};
  }

  [[nodiscard]] static int current_device() {
    int out = 0;
    cuda::check(cudaGetDevice(&out), "cudaGetDevice");
    return out;
  }

  [[nodiscard]] std::shared_ptr<member> keep(ncclComm_t comm, std::string name) {
    std::shared_ptr<member> const owned(new member{comm, std::move(name)});
    {
      std::scoped_lock const lock(mutex_);
      members_.push_back(owned);
    }
    return {owned.get(), [self = shared_from_this()](member* m) { self->end(m); }};
  }

  [[nodiscard]] std::vector<std::shared_ptr<member>> members() const {
    std::scoped_lock const lock(mutex_);
    return members_;
  }

  /// The variable into which NCCL writes a communicator, possibly as late as at the end of an
  /// abort.
  struct created_communicator {
    ncclComm_t comm = nullptr;
    bool is_owned = false;  // a member owns the communicator
  };

  /// Waits until the communicator is no longer in progress: most calls complete within some tens of
  /// microseconds, and a sleep would take longer than that.
  void settle(ncclComm_t comm, std::string_view name, call_site caller) {
    auto const deadline = options_.deadline.get();
    patience limit(deadline);
    auto const spin_end = steady_time::clock::now() + std::chrono::microseconds(100);
    for (int asked = 1;; ++asked) {
      {
        auto const inside = gate_.enter(name);
        ncclResult_t state = ncclSuccess;
        check(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", comm, caller);
        check(state, name, comm, caller);
        if (state == ncclSuccess) return;
      }
      auto const time = steady_time::clock::now();
      if (limit.is_over(time))
        fail<timed_out>(name, " at ", caller, ": other ranks have not come within ",
                        static_cast<double>(deadline.count()) / 1000, " s");
      if (asked < 16 || time < spin_end)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  /// Throws the error that NCCL reports for a communicator.
  void require_sound() {
    for (auto const& member_of_session : members()) {
      auto const inside = gate_.try_enter("ncclCommGetAsyncError");
      if (!inside) return;  // the next period checks again
      auto const state = member_of_session->state();
      if (state == ncclSuccess || state == ncclInProgress) continue;
      char const* const words = ncclGetLastError(member_of_session->comm);
      auto const first = member_of_session->waiting.describe_first(member_of_session->name);
      fail("NCCL ", version(), ": ", ncclGetErrorString(state), words == nullptr ? "" : "; ",
           words == nullptr ? "" : words,
           first ? concat(", while rank ", rank_, " waited for ", *first) : "");
    }
  }

  /// Describes a call that has waited for too long, as far as it is known which calls have run.
  [[nodiscard]] std::string overdue_call() {
    auto const time = steady_time::clock::now();
    for (auto const& one : members())
      if (auto const overdue = one->waiting.overdue(time, one->name))
        return concat("rank ", rank_, " has waited ",
                      static_cast<double>(overdue->deadline.count()) / 1000, " s for ",
                      overdue->text,
                      "; another rank has not come to it, or the network does not carry it");
    std::scoped_lock const lock(mutex_);
    if (destroying_ && destroying_->is_over())
      return concat("rank ", rank_, " has waited ", options_.deadline.seconds(),
                    " s in ncclCommDestroy; another rank of its machine has not ended its "
                    "communicator");
    return {};
  }

  /// Ends all communicators as one group. Those in progress come last: their abort waits for a call
  /// that has not returned, possibly behind another communicator's kernel.
  void end_all() {
    auto const inside = gate_.enter_to_end("ncclCommAbort");
    is_aborting_ = true;
    static_cast<void>(ncclGroupStart());
    for (bool const includes_busy : {false, true})
      for (auto const& current : members())
        if (current->comm != nullptr && (includes_busy || current->state() != ncclInProgress))
          static_cast<void>(ncclCommAbort(current->comm.exchange(nullptr)));
    for (auto& created : created_)
      if (!created.is_owned && created.comm != nullptr)
        static_cast<void>(ncclCommAbort(std::exchange(created.comm, nullptr)));
    static_cast<void>(ncclGroupEnd());
  }

  /// Calls CUDA. Operations that end once an abort has begun have not run.
  void forget_completed() {
    for (auto const& current : members())
      current->waiting.forget_completed([this] { return is_aborting_.load(); });
  }

  /// Ends a member that is no longer used: its calls run, then it is finalised, unless an exception
  /// is being thrown, because then other ranks may never arrive. Its memory is freed when the ranks
  /// on its machine have finalised theirs: ranks end their communicators in the same order.
  void end(member* m) {
    if (std::uncaught_exceptions() > 0)
      watchdog_.end(concat("an exception left rank ", rank_, " and its communicators"));
    drain(*m);
    m->waiting.finish(!is_aborting_);
    auto const give_up_time = steady_time::clock::now() + options_.deadline.get();
    auto [comm, state] = take_communicator(*m);
    if (comm == nullptr) return;
    while (state == ncclInProgress && !gate_.is_closed() &&
           steady_time::clock::now() < give_up_time) {
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

  /// Removes a member and returns its communicator, which is finalised and now the caller's; null:
  /// it has been aborted, or there is none.
  [[nodiscard]] std::pair<ncclComm_t, ncclResult_t> take_communicator(member& m) {
    auto const inside = enter_to_end("ncclCommFinalize");
    ncclComm_t const comm = m.comm.exchange(nullptr);
    {
      std::scoped_lock const lock(mutex_);
      std::erase_if(members_, [&](auto const& one) { return one.get() == &m; });
    }
    return {comm, comm == nullptr ? ncclSuccess : ncclCommFinalize(comm)};
  }

  /// Enters for a call that ends an object of one communicator; if all communicators are to end,
  /// waits until they have.
  [[nodiscard]] gate::pass enter_to_end(std::string_view call) {
    for (;;) {
      if (gate_.is_closed()) watchdog_.end({});
      auto inside = gate_.enter_to_end(call);
      if (!gate_.is_closed() || is_aborting_) return inside;
    }
  }

  /// Notes that this thread enters or leaves ncclCommDestroy, which waits for other ranks.
  void watch_destroy(bool begins) {
    std::scoped_lock const lock(mutex_);
    destroying_.reset();
    if (begins) destroying_.emplace(options_.deadline.get());
  }

  /// Waits for the calls that have been enqueued on `m`.
  static void drain(member const& m) {
    for (auto const& completion : m.waiting.events())
      static_cast<void>(cudaEventSynchronize(completion.get()));
  }

  /// Does nothing for an aborted communicator, which has no registrations.
  template <class End>
  void deregister(member const& owner, void* registered, End const& end) {
    static_cast<void>(cudaSetDevice(device_));
    drain(owner);
    auto const inside = enter_to_end("ncclCommDeregister");
    if (ncclComm_t const comm = owner.comm; comm != nullptr)
      static_cast<void>(end(comm, registered));
  }

  int const rank_;
  int const device_;
  communicator_options const options_;
  std::shared_ptr<memory> const memory_ = std::make_shared<memory>();
  gate gate_;
  std::atomic<bool> is_aborting_ = false;
  std::deque<created_communicator> created_;  // used by the thread that is inside NCCL
  mutable std::mutex mutex_;  // guards the next members; never held in a call of CUDA or NCCL
  std::vector<std::shared_ptr<member>> members_;
  std::optional<patience> destroying_;
  watchdog watchdog_;  // uses all members above
};

}  // namespace parallel::nccl
