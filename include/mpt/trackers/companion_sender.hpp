// companion_sender: sends a journal's lines to a Python client, in a process that runs
// src/companion/tracker.py.
//
// companion_process: a program that runs alongside this one and receives lines through a pipe. It
// is another program, not a copy of this process as in helper_process.hpp, and outlives it where it
// has to.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>
#include <nlohmann/json.hpp>

#include <mpt/trackers/record_sender.hpp>
#include <parallel/core/file.hpp>

namespace mpt::trackers {

class companion_process {
 public:
  using cancellation = std::function<bool()>;

  /// Starts `words`, found as a shell would, with standard error appended to `log`, in its own
  /// process group, so that signals of a terminal do not reach it, and without this process's
  /// other files. Throws when it cannot be started.
  companion_process(std::vector<std::string> const& words, std::filesystem::path const& log);
  companion_process(companion_process&&) = delete;

  /// Closes the pipes. The program goes on by itself to its end.
  ~companion_process();

  /// Writes all of `text`; false when the program has closed its end, or when cancelled.
  [[nodiscard]] bool write(std::string_view text, cancellation const& is_cancelled);

  /// Ends the program's input.
  void close_input();

  /// The next line of its output, without the line end; nothing when its output has ended or `time`
  /// has passed, or when cancelled.
  [[nodiscard]] std::optional<std::string> read_line(std::chrono::milliseconds time,
                                                     cancellation const& is_cancelled);

  /// Whether the program has not ended.
  [[nodiscard]] bool is_running();

  /// Kills the program and its process group where it still runs; returns how it ended, as "was
  /// killed by signal 9 (Killed)" or "ended with status 1".
  std::string end();

 private:
  void describe(int status);

  parallel::descriptor input_, output_;
  ::pid_t process_ = -1;
  std::string received_;
  std::string ending_;
};

/// The text of src/companion/tracker.py.
extern std::string_view const companion_script;

/// The words that start the script by an interpreter. `is_of_run`: the calling program is the run
/// itself, whose use of the system the client may measure.
[[nodiscard]] std::vector<std::string> companion_words(std::string const& python,
                                                       bool is_of_run = false);

class companion_sender : public record_sender {
 public:
  /// `words` starts the process, whose standard error goes to `log`.
  companion_sender(std::vector<std::string> words, std::filesystem::path log);
  ~companion_sender() override;

  [[nodiscard]] std::size_t send(std::string_view lines, cancellation const& is_cancelled) override;
  void complete(cancellation const& is_cancelled) override;
  void restart() override;
  [[nodiscard]] std::chrono::milliseconds longest_wait() const override {
    return std::chrono::milliseconds(500);
  }

 private:
  /// Handles the answers that have come. Throws send_failure when the client has failed.
  void read_answers(cancellation const& is_cancelled, std::chrono::milliseconds time);
  void handle(std::string const& line);
  [[noreturn]] void fail_ended();

  std::vector<std::string> words_;
  std::filesystem::path log_;
  std::unique_ptr<companion_process> process_;
  bool is_finished_ = false;
  std::string folder_;  // of an offline run
};

}  // namespace mpt::trackers
