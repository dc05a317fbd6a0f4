// journal_tracker: a tracker that writes what it is told to a journal, which its own thread
// sends. However slow or dead the destination is, the run writes one line a batch to a local file.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <mpt/log/tracker.hpp>
#include <mpt/trackers/journal.hpp>
#include <mpt/trackers/line_protocol.hpp>
#include <mpt/trackers/record_sender.hpp>

namespace mpt::trackers {

/// How a journal is sent.
struct sending_options {
  std::chrono::milliseconds finish{30'000};      ///< for which `finish` waits for the destination
  std::chrono::milliseconds failed{3'000};       ///< likewise, after a failed run
  std::chrono::milliseconds first_pause{1'000};  ///< before lines are sent again; doubles up to
  std::chrono::milliseconds last_pause{60'000};
  int restarts = 3;
  std::string command = "track";  ///< what a user calls for a journal that is left over
};

class journal_tracker : public tracker {
 public:
  /// `name` begins the notes, as "wandb". `first_line` begins the run, or goes on with it; blank:
  /// the journal holds such a line. Throws where it cannot be written.
  journal_tracker(std::string name, std::filesystem::path const& file,
                  std::unique_ptr<record_sender> sender, sending_options options = {},
                  std::string_view first_line = {});
  ~journal_tracker() override;

  /// Appends a line to the journal.
  void append(std::string const& line);

  void log(std::int64_t step, nlohmann::ordered_json const& record) override;
  [[nodiscard]] std::vector<std::string> take_notes() override;
  void hurry() override { options_.finish = options_.failed; }
  void finish() override;
  void fail() override;

  /// Ends a run whose program is gone, as killed when its last line was written, unless the journal
  /// holds how it ended.
  void end_killed_run();

  /// Sends the journal as it is, waiting for at most `time`. Returns whether everything was sent;
  /// the journal is then deleted, else a note says what is left.
  bool send_rest(std::chrono::milliseconds time);

 private:
  using clock = std::chrono::steady_clock;

  /// Where an earlier program stopped sending.
  [[nodiscard]] std::size_t kept_position();

  void end(run_end how, std::chrono::milliseconds time);
  void run();
  /// Waits until lines should be sent; returns false when there is nothing more to do.
  [[nodiscard]] bool wait_for_lines(std::unique_lock<std::mutex>& guard);
  /// Sends some lines, or handles the failure.
  void send_some();
  void handle(send_failure const& failure);
  void note_once(std::string const& text);
  /// Writes the run's last line, which found no room earlier, for a later program.
  void keep_end();
  void describe_rest();

  std::string name_;
  journal journal_;
  std::unique_ptr<record_sender> sender_;
  sending_options options_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::string> notes_;  // guarded, as the next two are
  std::vector<std::string> known_notes_;
  bool is_ending_ = false;  // no lines follow
  std::atomic<bool> is_cancelled_ = false;
  bool is_complete_ = false;  // the thread's, and after it the caller's, as those below
  bool is_given_up_ = false;
  int restarts_ = 0;
  std::string last_failure_;
  bool is_outage_told_ = false;  // since the last success
  std::size_t sent_ = 0;
  clock::time_point last_send_ = clock::now();
  std::chrono::milliseconds pause_{0};  // before the next try
  bool is_ended_ = false;               // the caller's
  std::string unwritten_end_;           // the run's last line, where the journal cannot hold it
  std::thread thread_;
};

}  // namespace mpt::trackers
