#include <mpt/console/progress.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <mpt/console/say.hpp>

namespace mpt::console {

void progress::update(double completed, std::string const& text) {
  auto const time = clock::now();
  bool const complete = completed >= 1.0;
  if (!complete && has_output_ && std::chrono::duration<double>(time - last_).count() < interval_)
    return;
  last_ = time;
  has_output_ = true;
  std::string const line =
      fmt::format("{} {} {:3.0f}%  {}", label_, bar(completed), 100 * completed, text);
  if (terminal_)
    say("\r\x1b[2K{}", line);
  else
    say("{}\n", line);
  is_line_open_ = terminal_;
}

void progress::note(std::string const& text) {
  say("{}{}\n", terminal_ && is_line_open_ ? "\r\x1b[2K" : "", text);
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
