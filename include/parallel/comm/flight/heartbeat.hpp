// heartbeat: names a process that has stalled within seconds, whatever its ranks wait for.
//
// A thread that no collective can block increments a count in the header of the process's flight
// ring, and checks whether the count of the next rank's ring grows. Each process is so watched by
// one other, at the cost of reading a page four times a second. A deadline of collectives cannot
// replace this: it must be longer than the longest step, and the rank that reaches it is often not
// the rank that has stalled.
//
// On one machine the count is visible immediately. Between machines it goes through the file system
// of the folder: the page is flushed once a second and the file is opened anew for each check,
// which is when NFS guarantees to show changes (close-to-open). A file system that shows them later
// than the limit needs a longer limit.
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

#include <parallel/comm/flight/flight_report.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/core/patience.hpp>

namespace parallel {

struct heartbeat_options {
  std::chrono::milliseconds limit = std::chrono::seconds(10);  ///< without a beat, while one looks
  bool between_machines = false;  ///< whether a rank of another machine watches these beats
};

/// Checks whether another rank's process still counts, by its ring's file. Time in which the
/// watching process itself was stalled does not count.
class heartbeat_watch {
 public:
  heartbeat_watch(std::filesystem::path file, std::chrono::milliseconds limit,
                  steady_time time = std::chrono::steady_clock::now())
      : file_(std::move(file)), limit_(limit), patience_(limit, time) {}

  /// Whether the process has not counted within the limit. Time counts in full only if this is
  /// called at least every patience::max_pause. Without a file the rank has ended well, or not
  /// begun.
  [[nodiscard]] bool is_stalled(steady_time time = std::chrono::steady_clock::now()) {
    auto const count = beats();
    if (count && count == last_count_) return patience_.is_over(time);
    last_count_ = count;
    patience_ = patience(limit_, time);
    return false;
  }

  /// Which process has stalled and its last call: "rank 2 (process 17 on host) is stalled: …".
  [[nodiscard]] std::string sentence() const {
    auto const seconds = static_cast<double>(limit_.count()) / 1000.0;
    flight_log log;
    try {
      log = read_flight(file_);
    } catch (error const&) {
      return concat("the rank of ", file_.native(), " is stalled: it has not run for ", seconds,
                    " s");
    }
    return concat("rank ", log.rank, " (process ", log.process, " on ", log.machine,
                  ") is stalled: it has not run for ", seconds, " s; ",
                  log.calls.empty()
                      ? std::string("it made no call")
                      : concat("its last call: ", describe(log.calls.back().call_signature),
                               state_of(log.calls.back())));
  }

 private:
  [[nodiscard]] static std::string_view state_of(flight_call const& call) {
    return call.state == call_state::completed ? ", which was over"
           : call.state == call_state::running ? ", in which it is"
                                               : ", which waited for its stream";
  }

  [[nodiscard]] std::optional<std::uint64_t> beats() const {
    try {
      return read_flight_header(input_file(file_)).beats;
    } catch (error const&) {  // no file, or an incomplete one
      return std::nullopt;
    }
  }

  std::filesystem::path file_;
  std::chrono::milliseconds limit_;
  patience patience_;
  std::optional<std::uint64_t> last_count_;
};

/// Counts for this process, and watches another one, until it is destroyed.
class heartbeat {
 public:
  /// Counts in the file that `recorder` writes to. `watched` is the ring file of the other process.
  /// Its own thread calls `lost(sentence)` once when that process has stalled, and then ends.
  heartbeat(std::shared_ptr<flight_recorder> recorder, std::filesystem::path const& watched,
            std::function<void(std::string const&)> lost, heartbeat_options options = {})
      : recorder_(std::move(recorder)),
        lost_(std::move(lost)),
        options_(options),
        watch_(watched, options.limit),
        thread_([this] { run(); }) {}
  heartbeat(heartbeat&&) = delete;
  ~heartbeat() {
    {
      std::scoped_lock const lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (int beats = 0; !is_stopping_; ++beats) {
      lock.unlock();
      recorder_->ring().beat(options_.between_machines && beats % 4 == 0);
      if (watch_.is_stalled()) return lost_(watch_.sentence());
      lock.lock();
      changed_.wait_for(lock, patience::max_pause, [&] { return is_stopping_; });
    }
  }

  std::shared_ptr<flight_recorder> recorder_;
  std::function<void(std::string const&)> lost_;
  heartbeat_options options_;
  heartbeat_watch watch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace parallel
