// companion_process: a program that runs alongside this one and receives lines through a pipe. It
// is another program, not a copy of this process as in helper_process.hpp, and outlives it where it
// has to.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/core/file.hpp>

namespace mpt::trackers {

class companion_process {
 public:
  using cancellation = std::function<bool()>;

  /// Starts `words`, found as a shell would, with standard error appended to `log`, in its own
  /// process group, so that signals of a terminal do not reach it, and without this process's
  /// other files. Throws when it cannot be started.
  companion_process(std::vector<std::string> const& words, std::filesystem::path const& log);
  companion_process(companion_process const&) = delete;
  companion_process& operator=(companion_process const&) = delete;

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

}  // namespace mpt::trackers
