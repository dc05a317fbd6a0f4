// nccl::watchdog: decides when a rank's communicators must end, and sees to it that they do.
//
// Three threads, since calls of CUDA exclude each other, and one that waits for a kernel which
// spins, as to load another kernel or to free memory, keeps all others of the process waiting:
// - One asks NCCL what has failed, and CUDA what has run. While it gets no answer, nothing is seen
// to be over.
// - One decides, by deadlines, by what another rank has posted and by what the first has heard. It
//   calls nothing of CUDA's or NCCL's, and waits for nobody.
// - One ends them. NCCL tells its kernels to stop before it calls CUDA, so whoever waited for those
//   goes on; but an abort may not return all the same, or not begin while another thread is inside
//   NCCL. The one that decides then says so, after a grace, and ends the process.
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
  /// What it calls, each on a thread of its own.
  struct duties {
    std::function<void()> see;          // asks NCCL and CUDA; throws what has failed
    std::function<std::string()> late;  // what has waited for too long; empty: nothing
    std::function<void()> end;          // ends the communicators
  };

  /// Of rank `rank`, whose GPU is `device`. `of` and what the duties use must outlive it. `board`:
  /// null: there is none.
  watchdog(gate& of, int rank, int device, communicator_options options,
           std::shared_ptr<notice_board> board, duties calls)
      : gate_(of),
        rank_(rank),
        options_(std::move(options)),
        board_(std::move(board)),
        calls_(std::move(calls)) {
    for (auto const body : {&watchdog::see, &watchdog::end_when_closed})
      threads_.emplace_back([this, device, body] {
        static_cast<void>(cudaSetDevice(device));  // while nothing is under way
        (this->*body)();
      });
    threads_.emplace_back([this] { decide(); });
  }
  watchdog(watchdog const&) = delete;
  watchdog& operator=(watchdog const&) = delete;
  ~watchdog() {
    {
      std::scoped_lock const lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (auto& one : threads_) one.join();
  }

  /// Ends all communicators, for this reason unless there is one; returns when they have ended.
  /// `tell`: what is posted for the other ranks; empty: nothing.
  void end(std::string const& reason, std::string tell = {}) {
    bool const first = close(reason, end_cause::told, tell, false);
    std::unique_lock lock(mutex_);
    bool const tells = !first && !tell.empty() && !std::exchange(told_, true);
    changed_.wait(lock, [&] { return ended_; });
    lock.unlock();
    if (tells) post(tell);
  }

 private:
  /// `told`: the other ranks know already. False: the communicators end for another reason.
  bool close(std::string const& reason, end_cause why, std::string tell, bool told) {
    std::scoped_lock const lock(mutex_);
    if (stopping_ && !closed_) return false;  // nobody is left to end them, and nothing to end
    if (!gate_.close(reason, why)) return false;
    told_ = told || !tell.empty();
    tell_ = std::move(tell);
    closed_ = true;
    changed_.notify_all();
    return true;
  }

  void post(std::string const& what) {
    if (!board_) return;
    try {
      board_->post(rank_, what);
    } catch (...) {  // NOLINT(bugprone-empty-catch): their deadlines will tell them
    }
  }

  void see() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      changed_.wait_for(lock, pause(), [&] { return stopping_ || asked_ > seen_; });
      auto const now = asked_;
      asks_cuda_since_ = steady_time::clock::now();
      lock.unlock();
      std::string trouble;
      try {
        calls_.see();
      } catch (std::exception const& failure) {
        trouble = failure.what();
      }
      lock.lock();
      if (trouble_.empty()) trouble_ = std::move(trouble);
      asks_cuda_since_.reset();
      seen_ = now;
      changed_.notify_all();
    }
  }

  void end_when_closed() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || closed_; });
    if (!closed_) return;
    auto const wanted = ++asked_;  // what ends from now on has not run
    changed_.notify_all();
    changed_.wait_for(lock, look_back, [&] { return stopping_ || seen_ >= wanted; });
    lock.unlock();
    if (!tell_.empty()) post(tell_);
    calls_.end();
    lock.lock();
    ended_ = true;
    changed_.notify_all();
  }

  void decide() {
    std::optional<patience> grace;
    std::unique_lock lock(mutex_);
    while (!stopping_ || (closed_ && !ended_)) {
      changed_.wait_for(lock, pause());
      if (ended_) continue;
      if (closed_) {
        if (!grace) grace.emplace(options_.grace);
        if (!grace->over()) continue;
        grace.emplace(std::chrono::hours(1000000));  // it is said once
        auto const text = stuck();
        lock.unlock();
        say_stuck(text);
        lock.lock();
        continue;
      }
      auto const trouble = trouble_;
      lock.unlock();  // the board has locks of its own
      auto const found = [&](std::string const& what, end_cause why) {
        close(concat("rank ", rank_, " failed: ", what, why == end_cause::late ? unanswered() : ""),
              why, what, false);
      };
      if (auto const told = board_ ? board_->read() : std::nullopt)
        close(*told, end_cause::told, {}, true);
      else if (!trouble.empty())
        found(trouble, end_cause::here);
      else if (auto const late = calls_.late(); !late.empty())
        found(late, end_cause::late);
      lock.lock();
    }
  }

  /// What is said beside a deadline when CUDA has not answered for as long.
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
    auto const inside = gate_.inside();
    return concat(gate_.reason().value_or(""), "; ",
                  static_cast<double>(options_.grace.count()) / 1000.0,
                  " s later the NCCL communicators of rank ", rank_, " have not ended",
                  inside.empty() ? "" : ": ", inside, inside.empty() ? "" : " has not returned");
  }

  void say_stuck(std::string const& sentence) const {
    if (options_.when_stuck) return options_.when_stuck(sentence);
    static_cast<void>(std::fprintf(stderr, "error: %s\n", sentence.c_str()));
    std::_Exit(EXIT_FAILURE);  // destructors would wait for what does not return
  }

  [[nodiscard]] std::chrono::milliseconds pause() const {
    return std::min(options_.look_every, patience::pause);
  }

  /// How long an end waits to know what has run before it.
  static constexpr std::chrono::milliseconds look_back{100};

  gate& gate_;
  int const rank_;
  communicator_options const options_;
  std::shared_ptr<notice_board> const board_;
  duties const calls_;
  mutable std::mutex mutex_;  // held inside no call of CUDA or NCCL
  std::condition_variable changed_;
  bool stopping_ = false;
  bool closed_ = false;
  bool ended_ = false;
  std::string tell_;     // what is posted; empty: nothing
  bool told_ = false;    // the other ranks know, or are being told
  std::string trouble_;  // what CUDA has said
  std::uint64_t asked_ = 0, seen_ = 0;
  std::optional<steady_time> asks_cuda_since_;
  std::vector<std::thread> threads_;
};

}  // namespace parallel::nccl
