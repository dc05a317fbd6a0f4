#include <mpt/console/progress.hpp>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include <mpt/console/say.hpp>

namespace mpt::console {

namespace {

/// Empties the line of a terminal in which the cursor is.
void erase_line() { static_cast<void>(std::fputs("\r\x1b[2K", stderr)); }

}  // namespace

void progress::update(double completed, std::string const& text) {
  auto const time = clock::now();
  bool const complete = completed >= 1.0;
  if (!complete && has_output_ && std::chrono::duration<double>(time - last_).count() < interval_)
    return;
  last_ = time;
  has_output_ = true;
  std::string const line =
      fmt::format("{} {} {:3.0f}%  {}", label_, bar(completed), 100 * completed, text);
  if (terminal_) erase_line();
  say("{}{}", line, terminal_ ? "" : "\n");
  is_line_open_ = terminal_;
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

std::string progress::bar(double completed) {
  constexpr int cells = 20;
  int const full = static_cast<int>(std::clamp(completed, 0.0, 1.0) * cells);
  std::string out;
  for (int i = 0; i < cells; ++i) out += i < full ? "━" : "·";
  return out;
}

}  // namespace mpt::console
