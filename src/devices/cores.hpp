// Divides this machine's cores among ranks.
#pragma once

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/machine_name.hpp>

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

/// The number of threads per rank in OMP_NUM_THREADS, the first number if it lists several nested
/// levels; 0: the variable is not set. Throws when it is not a valid number.
[[nodiscard]] inline int threads_of_environment() {
  constexpr int max_threads = 4096;
  char const* const text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  std::string_view level(text);
  level = level.substr(0, level.find(','));
  while (level.starts_with(' ')) level.remove_prefix(1);
  while (level.ends_with(' ')) level.remove_suffix(1);
  int threads = 0;
  auto const [end, failed] = std::from_chars(level.data(), level.data() + level.size(), threads);
  parallel::require(failed == std::errc() && end == level.data() + level.size() && threads >= 1 &&
                        threads <= max_threads,
                    "OMP_NUM_THREADS is '", std::string_view(text).substr(0, 60),
                    "'; expected a number of threads from 1 to ", max_threads,
                    "; unset it for one a core");
  return threads;
}

/// The cores of rank `rank` of `ranks`: an equal contiguous part of `cores`, or one core that
/// several ranks share when there are fewer cores than ranks.
[[nodiscard]] inline std::vector<int> cores_of_rank(std::vector<int> const& cores, int rank,
                                                    int ranks) {
  auto const count = static_cast<int>(cores.size());
  if (count == 0) return {};
  if (count < ranks) return {cores[static_cast<std::size_t>(rank % count)]};
  return {cores.begin() + count * rank / ranks, cores.begin() + count * (rank + 1) / ranks};
}

/// The cores of a rank whose launcher may have bound each process to some cores. `identities` are
/// the texts by identity_of of all ranks; ranks with equal texts share their cores and divide them.
[[nodiscard]] inline std::vector<int> cores_shared_by_identity(
    std::vector<int> const& own_cores, std::vector<std::string> const& identities, int rank) {
  auto const own_identity = identities.begin() + rank;
  auto const predecessors = std::count(identities.begin(), own_identity, *own_identity);
  auto const sharing = std::count(identities.begin(), identities.end(), *own_identity);
  return cores_of_rank(own_cores, static_cast<int>(predecessors), static_cast<int>(sharing));
}

/// A text of this machine's name and these of its cores.
[[nodiscard]] inline std::string identity_of(std::vector<int> const& cores) {
  std::string text = parallel::machine_name();
  for (int const core : cores) text += ' ' + std::to_string(core);
  return text;
}

}  // namespace apps
