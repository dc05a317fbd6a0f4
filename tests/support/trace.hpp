// Logs the order of events over all streams of one rank, and a communicator that writes to the log.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>

namespace test {

/// A log to which streams write, and for whose entries a stream can wait.
class trace {
 public:
  void add(std::string text) {
    {
      std::scoped_lock const lock(mutex_);
      events_.push_back(std::move(text));
    }
    changed_.notify_all();
  }

  void clear() {
    std::scoped_lock const lock(mutex_);
    events_.clear();
  }

  /// Everything logged so far, in order.
  [[nodiscard]] std::vector<std::string> events() {
    std::scoped_lock const lock(mutex_);
    return events_;
  }

  /// Waits until `text` has been logged; returns false if that takes longer than `patience`.
  bool await(std::string const& text, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return std::ranges::count(events_, text) > 0; });
  }

  /// Whether both were logged, `first` before `second`.
  [[nodiscard]] bool in_order(std::string const& first, std::string const& second) {
    std::scoped_lock const lock(mutex_);
    auto const from = std::ranges::find(events_, first);
    return from != events_.end() && std::find(from, events_.end(), second) != events_.end();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> events_;
};

/// Logs "collective k begins" and "collective k ends" on the stream of each collective, and calls
/// hold(k) in between, which can delay it like a slow network.
template <parallel::has_submit Inner>
class delayed : public parallel::collectives<delayed<Inner>, typename Inner::stream_type> {
 public:
  delayed(Inner inner, trace& log, std::function<void(int)> hold)
      : delayed(std::move(inner), log, std::move(hold), std::make_shared<int>(0)) {}

  [[nodiscard]] int rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  void abort(std::string const& reason) { inner_.abort(reason); }
  [[nodiscard]] parallel::signature_exchange open_exchange(
      parallel::host::stream const* stream = nullptr) {
    return inner_.open_exchange(stream);
  }

  /// Collectives of a communicator and of its subgroups are counted together.
  [[nodiscard]] delayed split(parallel::coloring const& colors, std::string name = {}) {
    return delayed(inner_.split(colors, std::move(name)), log_, hold_, calls_);
  }

  parallel::request submit(parallel::host::stream& s, parallel::operation const& op) {
    int const k = (*calls_)++;
    auto const log = [this, k](char const* text) {
      log_.add(parallel::concat("collective ", k, text));
    };
    s.enqueue([log, k, hold = hold_] {
      log(" begins");
      hold(k);
    });
    auto inner = std::make_shared<parallel::request>(inner_.submit(s, op));
    // The task owns the request, since destroying it here would wait for it.
    return parallel::detail::enqueue(s, {}, op, [log, inner] { log(" ends"); });
  }

 private:
  delayed(Inner inner, trace& log, std::function<void(int)> hold, std::shared_ptr<int> calls)
      : inner_(std::move(inner)), log_(log), hold_(std::move(hold)), calls_(std::move(calls)) {}

  Inner inner_;
  trace& log_;
  std::function<void(int)> hold_;
  std::shared_ptr<int> calls_;
};

}  // namespace test
