// Dividing this machine's cores among ranks.
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

/// The threads of a rank that OMP_NUM_THREADS asks for, of nested levels the first's; 0: it is not
/// set. Throws when it is no such number.
[[nodiscard]] inline int threads_of_environment() {
  constexpr int most = 4096;
  char const* const text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  std::string_view level(text);
  level = level.substr(0, level.find(','));
  while (level.starts_with(' ')) level.remove_prefix(1);
  while (level.ends_with(' ')) level.remove_suffix(1);
  int threads = 0;
  auto const [end, failed] = std::from_chars(level.data(), level.data() + level.size(), threads);
  parallel::require(failed == std::errc() && end == level.data() + level.size() && threads >= 1 &&
                        threads <= most,
                    "OMP_NUM_THREADS is '", std::string_view(text).substr(0, 60),
                    "'; expected a number of threads from 1 to ", most,
                    "; unset it for one a core");
  return threads;
}

/// The cores of rank `rank` of `ranks`: an equal contiguous part; shared when there are too few.
[[nodiscard]] inline std::vector<int> cores_of_rank(std::vector<int> const& all, int rank,
                                                    int ranks) {
  auto const count = static_cast<int>(all.size());
  if (count == 0) return {};
  if (count < ranks) return {all[static_cast<std::size_t>(rank % count)]};
  return {all.begin() + count * rank / ranks, all.begin() + count * (rank + 1) / ranks};
}

/// The cores of a rank where processes may each be bound to cores by their launcher: `all` is what
/// each rank says of its machine and cores (identity_of). Those that say the same divide these
/// cores.
[[nodiscard]] inline std::vector<int> cores_among_equals(std::vector<int> const& own,
                                                         std::vector<std::string> const& all,
                                                         int rank) {
  auto const mine = all.begin() + rank;
  auto const before = std::count(all.begin(), mine, *mine);
  auto const together = std::count(all.begin(), all.end(), *mine);
  return cores_of_rank(own, static_cast<int>(before), static_cast<int>(together));
}

/// This machine's name and these cores of it, as text.
[[nodiscard]] inline std::string identity_of(std::vector<int> const& cores) {
  std::string text = parallel::machine_name();
  for (int const core : cores) text += ' ' + std::to_string(core);
  return text;
}

}  // namespace apps
