// A progress line: redrawn in place on a terminal, one line now and then elsewhere (log files).
#pragma once

#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

namespace mpt::console {

class progress {
 public:
  /// `label` stands before the bar. On a terminal it is redrawn at most ten times a second;
  /// elsewhere a line appears every `quiet_seconds`.
  explicit progress(std::string label, double quiet_seconds = 15.0)
      : label_(std::move(label)),
        terminal_(::isatty(STDERR_FILENO) == 1),
        interval_(terminal_ ? 0.1 : quiet_seconds) {}

  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  ~progress() { finish(); }

  /// Shows `done` of 1 and a text behind the bar, when it is time to, or when done.
  void update(double completed, std::string const& text);

  /// Prints a line of its own without disturbing the bar.
  void note(std::string const& text);

  /// Leaves the last state of the bar on the screen.
  void finish();

 private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] static std::string bar(double completed);

  std::string label_;
  bool terminal_;
  double interval_;
  clock::time_point last_;
  bool has_output_ = false;
  bool is_line_open_ = false;
};

}  // namespace mpt::console
