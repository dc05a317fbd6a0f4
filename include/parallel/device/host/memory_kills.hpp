// memory_kills: the number of processes that the system has killed for lack of memory. It tells
// such a kill from any other SIGKILL.
#pragma once

#include <cstddef>
#include <string>

#include <parallel/device/host/available_memory.hpp>

namespace parallel::host {

struct memory_kills {
  std::size_t in_group = 0;    // in this process's visible control groups
  std::size_t on_machine = 0;  // on the whole machine, groups included

  /// Why the system has killed a process since the count `earlier`: "its control group may use no
  /// more memory" or "the machine has no more memory"; "" if it killed none for lack of memory.
  [[nodiscard]] std::string since(memory_kills const& earlier) const {
    if (in_group > earlier.in_group) return "its control group may use no more memory";
    if (on_machine > earlier.on_machine) return "the machine has no more memory";
    return {};
  }
};

/// The counts until now. `root` is the folder that holds proc and sys.
[[nodiscard]] inline memory_kills count_memory_kills(std::string const& root = "") {
  memory_kills out;
  detail::for_each_memory_group(root, [&](std::string const& folder, auto const& files) {
    out.in_group += detail::number_after("oom_kill", detail::read_text(folder + '/' + files.events))
                        .value_or(0);
  });
  out.on_machine =
      detail::number_after("oom_kill", detail::read_text(root + "/proc/vmstat")).value_or(0);
  return out;
}

}  // namespace parallel::host
