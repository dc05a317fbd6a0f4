// A progress line: redrawn in place on a terminal, one line now and then elsewhere (log files).
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>

#include <fmt/format.h>
#include <mpt/console/say.hpp>

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
  void update(double done, std::string const& text) {
    auto const now = clock::now();
    bool const complete = done >= 1.0;
    if (!complete && shown_ && std::chrono::duration<double>(now - last_).count() < interval_)
      return;
    last_ = now;
    shown_ = true;
    std::string const line = fmt::format("{} {} {:3.0f}%  {}", label_, bar(done), 100 * done, text);
    if (terminal_)
      say("\r\x1b[2K{}", line);
    else
      say("{}\n", line);
    open_ = terminal_;
  }

  /// Prints a line of its own without disturbing the bar.
  void note(std::string const& text) {
    say("{}{}\n", terminal_ && open_ ? "\r\x1b[2K" : "", text);
    open_ = false;
  }

  /// Leaves the last state of the bar on the screen.
  void finish() {
    if (open_) say("\n");
    open_ = false;
  }

 private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] static std::string bar(double done) {
    constexpr int cells = 20;
    int const full = static_cast<int>(std::clamp(done, 0.0, 1.0) * cells);
    std::string out;
    for (int i = 0; i < cells; ++i) out += i < full ? "━" : "·";
    return out;
  }

  std::string label_;
  bool terminal_;
  double interval_;
  clock::time_point last_;
  bool shown_ = false;
  bool open_ = false;
};

}  // namespace mpt::console
