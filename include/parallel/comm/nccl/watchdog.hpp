// nccl::watchdog: decides when a rank's communicators must end, and ends them.
//
// It has three threads, since calls of CUDA exclude each other: a call that waits for a spinning
// kernel, for example to load another kernel or to free memory, blocks all other calls of the
// process.
// - The first thread asks NCCL what has failed, and CUDA what has run. While it gets no answer, no
//   call is seen to have completed.
// - The second thread decides, by deadlines, by notices of other ranks and by what the first thread
//   has found. It never calls CUDA or NCCL, and never waits for another thread.
// - The third thread ends the communicators. NCCL tells its kernels to stop before it calls CUDA,
// so
//   that threads which wait for them continue; but an abort may still not return, or not begin
//   while another thread is inside NCCL. After a grace the second thread then reports that, and
//   ends the process.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/nccl/gate.hpp>
#include <parallel/comm/nccl/notice_board.hpp>
#include <parallel/comm/nccl/options.hpp>
#include <parallel/core/clock.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/patience.hpp>

namespace parallel::nccl {

class watchdog {
 public:
  /// The functions that it calls, each on its own thread.
  struct callbacks {
    std::function<void()> poll;            ///< asks NCCL and CUDA; throws errors that they report
    std::function<std::string()> overdue;  ///< describes an overdue call; empty: none
    std::function<void()> end_all;         ///< ends the communicators
  };

  /// For rank `rank`, whose GPU is `device`. `watched_gate` and whatever the callbacks use must
  /// outlive it. `board` may be null.
  watchdog(gate& watched_gate, int rank, int device, communicator_options options,
           std::shared_ptr<notice_board> board, callbacks calls)
      : gate_(watched_gate),
        rank_(rank),
        options_(std::move(options)),
        board_(std::move(board)),
        calls_(std::move(calls)) {
    for (auto const body : {&watchdog::poll_when_due, &watchdog::end_when_closed})
      threads_.emplace_back([this, device, body] {
        static_cast<void>(cudaSetDevice(device));  // before any exchange is under way
        (this->*body)();
      });
    threads_.emplace_back([this] { decide(); });
  }
  watchdog(watchdog&&) = delete;
  ~watchdog() {
    {
      std::scoped_lock const lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  /// Ends all communicators, with this reason unless there is one already; returns when they have
  /// ended. `notice` is posted for the other ranks; empty: nothing is posted.
  void end(std::string const& reason, std::string notice = {}) {
    bool const first = close(reason, end_cause::reported, notice, false);
    std::unique_lock lock(mutex_);
    bool const tells = !first && !notice.empty() && !std::exchange(is_notice_known_, true);
    changed_.wait(lock, [&] { return has_ended_; });
    lock.unlock();
    if (tells) post(notice);
  }

 private:
  /// Returns false if the communicators end for another reason. `is_notice_known`: the other ranks
  /// know already.
  bool close(std::string const& reason, end_cause cause, std::string notice, bool is_notice_known) {
    std::scoped_lock const lock(mutex_);
    if (is_stopping_ && !is_closed_) return false;  // there is no thread and no communicator left
    if (!gate_.close(reason, cause)) return false;
    is_notice_known_ = is_notice_known || !notice.empty();
    notice_ = std::move(notice);
    is_closed_ = true;
    changed_.notify_all();
    return true;
  }

  void post(std::string const& notice) {
    if (!board_) return;
    try {
      board_->post(rank_, notice);
    } catch (...) {  // NOLINT(bugprone-empty-catch): the others have deadlines
    }
  }

  void poll_when_due() {
    std::unique_lock lock(mutex_);
    while (!is_stopping_) {
      changed_.wait_for(lock, pause(),
                        [&] { return is_stopping_ || poll_requests_ > polls_done_; });
      auto const request_number = poll_requests_;
      asks_cuda_since_ = steady_time::clock::now();
      lock.unlock();
      std::string trouble;
      try {
        calls_.poll();
      } catch (std::exception const& failure) {
        trouble = failure.what();
      }
      lock.lock();
      if (trouble_.empty()) trouble_ = std::move(trouble);
      asks_cuda_since_.reset();
      polls_done_ = request_number;
      changed_.notify_all();
    }
  }

  void end_when_closed() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_stopping_ || is_closed_; });
    if (!is_closed_) return;
    auto const wanted = ++poll_requests_;  // calls that end from now on have not run
    changed_.notify_all();
    changed_.wait_for(lock, last_poll_time, [&] { return is_stopping_ || polls_done_ >= wanted; });
    lock.unlock();
    if (!notice_.empty()) post(notice_);
    calls_.end_all();
    lock.lock();
    has_ended_ = true;
    changed_.notify_all();
  }

  void decide() {
    std::optional<patience> grace;
    std::unique_lock lock(mutex_);
    while (!is_stopping_ || (is_closed_ && !has_ended_)) {
      changed_.wait_for(lock, pause());
      if (has_ended_) continue;
      if (is_closed_) {
        if (!grace) grace.emplace(options_.grace);
        if (!grace->is_over()) continue;
        grace.emplace(std::chrono::hours(1000000));  // report it only once
        auto const text = stuck();
        lock.unlock();
        say_stuck(text);
        lock.lock();
        continue;
      }
      auto const trouble = trouble_;
      lock.unlock();  // the board has its own locks
      auto const close_with_problem = [&](std::string const& problem, end_cause cause) {
        close(concat("rank ", rank_, " failed: ", problem,
                     cause == end_cause::timed_out_here ? unanswered() : ""),
              cause, problem, false);
      };
      if (auto const notice = board_ ? board_->read() : std::nullopt)
        close(*notice, end_cause::reported, {}, true);
      else if (!trouble.empty())
        close_with_problem(trouble, end_cause::found_here);
      else if (auto const overdue_call = calls_.overdue(); !overdue_call.empty())
        close_with_problem(overdue_call, end_cause::timed_out_here);
      lock.lock();
    }
  }

  /// An addition to a deadline's message when CUDA has not answered for a long time.
  [[nodiscard]] std::string unanswered() const {
    std::scoped_lock const lock(mutex_);
    if (!asks_cuda_since_) return {};
    auto const time = std::chrono::duration<double>(steady_time::clock::now() - *asks_cuda_since_);
    if (time < std::min<std::chrono::duration<double>>(options_.deadline.get() / 2,
                                                       std::chrono::seconds(1)))
      return {};
    return concat("; CUDA has not answered this process for ",
                  static_cast<double>(static_cast<long>(time.count() * 10)) / 10,
                  " s: a call of another of its threads waits, as to load a kernel or to free "
                  "memory");
  }

  [[nodiscard]] std::string stuck() const {
    auto const call = gate_.call_inside();
    return concat(gate_.reason().value_or(""), "; ",
                  static_cast<double>(options_.grace.count()) / 1000.0,
                  " s later the NCCL communicators of rank ", rank_, " have not ended",
                  call.empty() ? "" : ": ", call, call.empty() ? "" : " has not returned");
  }

  void say_stuck(std::string const& sentence) const {
    if (options_.when_stuck) return options_.when_stuck(sentence);
    static_cast<void>(std::fprintf(stderr, "error: %s\n", sentence.c_str()));
    std::_Exit(EXIT_FAILURE);  // destructors would wait for the call that does not return
  }

  [[nodiscard]] std::chrono::milliseconds pause() const {
    return std::min(options_.look_every, patience::max_pause);
  }

  /// The time that the destructor waits for a last poll of earlier calls.
  static constexpr std::chrono::milliseconds last_poll_time{100};

  gate& gate_;
  int const rank_;
  communicator_options const options_;
  std::shared_ptr<notice_board> const board_;
  callbacks const calls_;
  mutable std::mutex mutex_;  // never held in a call of CUDA or NCCL
  std::condition_variable changed_;
  bool is_stopping_ = false;
  bool is_closed_ = false;
  bool has_ended_ = false;
  std::string notice_;            // to be posted; empty: nothing
  bool is_notice_known_ = false;  // the other ranks know the notice, or it is being posted
  std::string trouble_;           // the error of the first thread
  std::uint64_t poll_requests_ = 0, polls_done_ = 0;
  std::optional<steady_time> asks_cuda_since_;
  std::vector<std::thread> threads_;
};

}  // namespace parallel::nccl
