#include <mpt/console/progress.hpp>

#include <sys/ioctl.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include <mpt/console/say.hpp>
#include <mpt/console/table.hpp>

namespace mpt::console {

namespace {

/// Empties the line of a terminal in which the cursor is.
void erase_line() { static_cast<void>(std::fputs("\r\x1b[2K", stderr)); }

/// Whether a terminal goes on in its next line where text is wider than it.
void wrap_lines(bool wraps) {
  static_cast<void>(std::fputs(wraps ? "\x1b[?7h" : "\x1b[?7l", stderr));
}

/// The columns of the terminal, which may change at any time; 80 where it does not say.
int terminal_columns() {
  struct ::winsize size {};
  bool const is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : 80;
}

std::string bar_of(double completed, int cells) {
  int const full = static_cast<int>(std::clamp(completed, 0.0, 1.0) * cells);
  std::string out;
  for (int i = 0; i < cells; ++i) out += i < full ? "━" : "·";
  return cells > 0 ? out + " " : out;
}

}  // namespace

std::string progress_line(std::string_view label, double completed, std::string_view text,
                          int columns) {
  constexpr int narrow = 80, wide = 100;  // columns from which there is a bar, and a long one
  int const cells = columns == 0 || columns >= wide ? 20 : columns >= narrow ? 10 : 0;
  auto const line = [&] {
    return fmt::format("{} {}{:3.0f}%  {}", label, bar_of(completed, cells), 100 * completed, text);
  };
  auto const is_too_wide = [&] {
    return columns > 0 && std::cmp_greater_equal(width_of(line()), columns);
  };
  while (is_too_wide() && !text.empty()) {
    auto const end = text.rfind("  ");
    text = text.substr(0, end == std::string_view::npos ? 0 : end);
  }
  return line();
}

void progress::update(double completed, std::string const& text) {
  auto const time = clock::now();
  bool const complete = completed >= 1.0;
  if (!complete && has_output_ && std::chrono::duration<double>(time - last_).count() < interval_)
    return;
  last_ = time;
  has_output_ = true;
  if (!terminal_) return say("{}\n", progress_line(label_, completed, text, 0));
  erase_line();
  wrap_lines(false);  // characters may be wider than they are counted
  say("{}", progress_line(label_, completed, text, terminal_columns()));
  wrap_lines(true);
  is_line_open_ = true;
}

void progress::note(std::string const& text) {
  if (terminal_ && is_line_open_) erase_line();
  say("{}\n", text);
  is_line_open_ = false;
}

void progress::finish() {
  if (is_line_open_) say("\n");
  is_line_open_ = false;
}

}  // namespace mpt::console
