// heartbeat: a process that stands still is named within seconds, whatever its ranks wait for.
//
// A thread that no collective holds up counts in the header of the process's flight ring, and looks
// whether the ring of the next rank counts. So each is watched by one other, at the cost of reading
// a page four times a second. A deadline cannot do this: it must be longer than the longest step,
// and whoever misses it is often another rank than the one that stands still.
//
// On one machine the count is seen at once. Between machines it goes through the folder's file
// system: the page is flushed once a second and the file opened anew at each look, which is what
// NFS promises to show (close-to-open). A file system that shows it later than the limit needs a
// longer one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <parallel/comm/flight_report.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/core/patience.hpp>

namespace parallel {

struct heartbeat_options {
  std::chrono::milliseconds limit = std::chrono::seconds(10);  // without a beat, while one looks
  bool between_machines = false;  // whether a rank of another machine looks at these beats
};

/// Whether another rank's process counts, by what its ring's file says. Time in which the watcher
/// itself stood still is not held against the other.
class heartbeat_watch {
 public:
  heartbeat_watch(std::filesystem::path file, std::chrono::milliseconds limit,
                  steady_time now = std::chrono::steady_clock::now())
      : file_(std::move(file)), limit_(limit), left_(limit, now) {}

  /// Looks, at least every patience::pause for the time to count in full. Whether the process has
  /// not counted within the limit. Where there is no file, its rank has ended well, or not begun.
  [[nodiscard]] bool stands_still(steady_time now = std::chrono::steady_clock::now()) {
    auto const seen = beats();
    if (seen && seen == seen_) return left_.over(now);
    seen_ = seen;
    left_ = patience(limit_, now);
    return false;
  }

  /// Who stands still, where, and what it did last: "rank 2 (process 17 on host) stands still: …".
  [[nodiscard]] std::string sentence() const {
    auto const seconds = static_cast<double>(limit_.count()) / 1000.0;
    flight_log log;
    try {
      log = read_flight(file_);
    } catch (error const&) {
      return concat("the rank of ", file_.native(), " stands still: it has not run for ", seconds,
                    " s");
    }
    return concat("rank ", log.rank, " (process ", log.process, " on ", log.machine,
                  ") stands still: it has not run for ", seconds, " s; ",
                  log.calls.empty() ? std::string("it made no call")
                                    : concat("its last call: ", describe(log.calls.back().what),
                                             state_of(log.calls.back())));
  }

 private:
  [[nodiscard]] static std::string_view state_of(flight_call const& call) {
    return call.now == call_state::done      ? ", which was over"
           : call.now == call_state::running ? ", in which it is"
                                             : ", which waited for its stream";
  }

  [[nodiscard]] std::optional<std::uint64_t> beats() const {
    try {
      return read_flight_header(input_file(file_)).beats;
    } catch (error const&) {  // none, or one that is being made
      return std::nullopt;
    }
  }

  std::filesystem::path file_;
  std::chrono::milliseconds limit_;
  patience left_;
  std::optional<std::uint64_t> seen_;
};

/// Beats for this process, and watches another, until it ends.
class heartbeat {
 public:
  /// Beats in the file that `recorder` writes to. `watched`: the other's. Calls `lost(sentence)`
  /// once, by its own thread, when that stands still; the thread ends then.
  heartbeat(std::shared_ptr<flight_recorder> recorder, std::filesystem::path const& watched,
            std::function<void(std::string const&)> lost, heartbeat_options options = {})
      : recorder_(std::move(recorder)),
        lost_(std::move(lost)),
        options_(options),
        watch_(watched, options.limit),
        thread_([this] { run(); }) {}
  heartbeat(heartbeat const&) = delete;
  heartbeat& operator=(heartbeat const&) = delete;
  ~heartbeat() {
    {
      std::scoped_lock const lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (int beats = 0; !over_; ++beats) {
      lock.unlock();
      recorder_->ring().beat(options_.between_machines && beats % 4 == 0);
      if (watch_.stands_still()) return lost_(watch_.sentence());
      lock.lock();
      changed_.wait_for(lock, patience::pause, [&] { return over_; });
    }
  }

  std::shared_ptr<flight_recorder> recorder_;
  std::function<void(std::string const&)> lost_;
  heartbeat_options options_;
  heartbeat_watch watch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace parallel
