// Dividing this machine's cores among ranks.
#pragma once

#include <sched.h>

#include <algorithm>
#include <vector>

namespace apps {

/// The cores this process may use.
[[nodiscard]] inline std::vector<int> available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (unsigned core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(static_cast<int>(core));
  return cores;
}

/// The cores of rank `rank` of `ranks`: an equal contiguous part; shared when there are too few.
[[nodiscard]] inline std::vector<int> cores_of_rank(std::vector<int> const& all, int rank,
                                                    int ranks) {
  auto const count = static_cast<int>(all.size());
  if (count == 0) return {};
  if (count < ranks) return {all[static_cast<std::size_t>(rank % count)]};
  return {all.begin() + count * rank / ranks, all.begin() + count * (rank + 1) / ranks};
}

}  // namespace apps
