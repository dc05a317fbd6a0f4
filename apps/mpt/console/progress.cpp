#include <mpt/console/progress.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <mpt/console/say.hpp>

namespace mpt::console {

void progress::update(double done, std::string const& text) {
  auto const now = clock::now();
  bool const complete = done >= 1.0;
  if (!complete && shown_ && std::chrono::duration<double>(now - last_).count() < interval_) return;
  last_ = now;
  shown_ = true;
  std::string const line = fmt::format("{} {} {:3.0f}%  {}", label_, bar(done), 100 * done, text);
  if (terminal_)
    say("\r\x1b[2K{}", line);
  else
    say("{}\n", line);
  open_ = terminal_;
}

void progress::note(std::string const& text) {
  say("{}{}\n", terminal_ && open_ ? "\r\x1b[2K" : "", text);
  open_ = false;
}

void progress::finish() {
  if (open_) say("\n");
  open_ = false;
}

std::string progress::bar(double done) {
  constexpr int cells = 20;
  int const full = static_cast<int>(std::clamp(done, 0.0, 1.0) * cells);
  std::string out;
  for (int i = 0; i < cells; ++i) out += i < full ? "━" : "·";
  return out;
}

}  // namespace mpt::console
