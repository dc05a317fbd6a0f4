// progress: a progress bar, redrawn in place on a terminal, in one line of any width, and a new
// line at an interval in a log file.
#pragma once

#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace mpt::console {

/// The line of a bar in at most `columns` (0: any number): label, bar, share and text. Where it is
/// wider, the bar is shorter or left out, and then the last parts of the text, which two spaces
/// divide.
[[nodiscard]] std::string progress_line(std::string_view label, double completed,
                                        std::string_view text, int columns);

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
  /// passed or at the end. Two spaces divide the parts of the text, the most important first.
  void update(double completed, std::string const& text);

  /// Prints a separate line without disturbing the bar.
  void note(std::string const& text);

  /// Leaves the last state of the bar on the screen.
  void finish();

 private:
  using clock = std::chrono::steady_clock;

  std::string label_;
  bool terminal_;
  double interval_;
  clock::time_point last_;
  bool has_output_ = false;
  bool is_line_open_ = false;
};

}  // namespace mpt::console
