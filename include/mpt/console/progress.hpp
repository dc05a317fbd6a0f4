// progress: a progress bar, redrawn in place on a terminal, and a new line at an interval in a log
// file.
#pragma once

#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

namespace mpt::console {

class progress {
 public:
  /// `label` is printed before the bar. On a terminal the bar is redrawn at most ten times a
  /// second; elsewhere a line appears every `quiet_seconds`.
  explicit progress(std::string label, double quiet_seconds = 15.0)
      : label_(std::move(label)),
        terminal_(::isatty(STDERR_FILENO) == 1),
        interval_(terminal_ ? 0.1 : quiet_seconds) {}

  progress(progress&&) = delete;
  ~progress() { finish(); }

  /// Shows the fraction `completed` (1 is the end) and a text after the bar, when the interval has
  /// passed or at the end.
  void update(double completed, std::string const& text);

  /// Prints a separate line without disturbing the bar.
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
