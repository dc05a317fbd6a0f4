// How often the system has killed processes for want of memory: what tells such an end from any
// other SIGKILL.
#pragma once

#include <cstddef>
#include <string>

#include <parallel/device/host/available_memory.hpp>

namespace parallel::host {

struct memory_kills {
  std::size_t in_group = 0;    // in this process's control groups, as far as they can be seen
  std::size_t on_machine = 0;  // on all of it, groups included

  /// What killed a process since `before`, if want of memory did: "its control group may use no
  /// more memory", "the machine has no more memory"; or "".
  [[nodiscard]] std::string since(memory_kills const& before) const {
    if (in_group > before.in_group) return "its control group may use no more memory";
    if (on_machine > before.on_machine) return "the machine has no more memory";
    return {};
  }
};

/// So far. `root`: where proc and sys are.
[[nodiscard]] inline memory_kills count_memory_kills(std::string const& root = "") {
  memory_kills out;
  detail::for_each_memory_group(root, [&](std::string const& folder, auto const& files) {
    out.in_group +=
        detail::number_of("oom_kill", detail::text_of(folder + '/' + files.events)).value_or(0);
  });
  out.on_machine =
      detail::number_of("oom_kill", detail::text_of(root + "/proc/vmstat")).value_or(0);
  return out;
}

}  // namespace parallel::host
