// What happened in which order, over all streams of one rank, and a communicator that tells it.
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

/// A log that streams write to, and that a stream can be made to wait for.
class trace {
 public:
  void add(std::string what) {
    {
      std::scoped_lock const lock(mutex_);
      events_.push_back(std::move(what));
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

  /// Waits until `what` has been logged; false when that takes longer than `patience`.
  bool await(std::string const& what, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return std::ranges::count(events_, what) > 0; });
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
/// hold(k) in between: a network as slow as the test wants.
template <parallel::has_submit Inner>
class delayed : public parallel::collectives<delayed<Inner>, typename Inner::stream_type> {
 public:
  delayed(Inner inner, trace& log, std::function<void(int)> hold)
      : delayed(std::move(inner), log, std::move(hold), std::make_shared<int>(0)) {}

  [[nodiscard]] int rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  void abort(std::string const& reason) { inner_.abort(reason); }
  [[nodiscard]] parallel::signature_exchange open_exchange(
      parallel::host::stream const* on = nullptr) {
    return inner_.open_exchange(on);
  }

  /// Collectives of the whole and its parts are counted together.
  [[nodiscard]] delayed split(parallel::coloring const& by, std::string name = {}) {
    return delayed(inner_.split(by, std::move(name)), log_, hold_, calls_);
  }

  parallel::request submit(parallel::host::stream& s, parallel::operation const& op) {
    int const k = (*calls_)++;
    auto const tell = [this, k](char const* what) {
      log_.add(parallel::concat("collective ", k, what));
    };
    s.enqueue([tell, k, hold = hold_] {
      tell(" begins");
      hold(k);
    });
    auto inner = std::make_shared<parallel::request>(inner_.submit(s, op));
    // the request lives as long as the task: dropping it here would wait for it
    return parallel::detail::enqueue(s, {}, op, [tell, inner] { tell(" ends"); });
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
