// available_memory: the memory that this process can still allocate: the machine's available
// memory, or less if a control group (a container, a job of a batch system) has a limit.
//
// A group's limit also applies to all groups below it, so the process's own group and all its
// visible ancestors are examined. In a container often only the topmost folder is visible, which
// then is the container's own. Groups count cached pages of files as used, but the system reclaims
// them when memory is needed, so they are not counted here.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel::host {

namespace detail {

/// The number at the beginning of `text`; nullopt if there is none, as for "max" (no limit).
[[nodiscard]] inline std::optional<std::size_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::size_t number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc{})
    return std::nullopt;
  return number;
}

/// The number in the line "NAME number"; nullopt if there is no such line.
[[nodiscard]] inline std::optional<std::size_t> number_after(std::string_view name,
                                                             std::string_view text) {
  while (!text.empty()) {
    auto const line = text.substr(0, text.find('\n'));
    if (line.starts_with(name)) {
      auto const rest = line.substr(name.size());
      if (rest.starts_with(' ') || rest.starts_with('\t')) return leading_number(rest);
    }
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return std::nullopt;
}

/// The content of a file; "" if it cannot be read.
[[nodiscard]] inline std::string read_text(std::string const& file) {
  std::string text;
  std::FILE* const in = std::fopen(file.c_str(), "r");
  if (in == nullptr) return text;
  char piece[4096];
  while (auto const count = std::fread(piece, 1, sizeof piece, in)) text.append(piece, count);
  std::fclose(in);
  return text;
}

/// The names of the files of one version of control groups.
struct group_files {
  std::string mount;
  std::vector<char const*> limits;
  char const* used;
  std::vector<char const*> cache;  // lines of memory.stat
  char const* events;              // has the line "oom_kill number"
};

/// The bytes that the limits of one group leave; the largest number if it has no limit.
[[nodiscard]] inline std::size_t available_in_group(std::string const& folder,
                                                    group_files const& files) {
  constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();
  std::size_t limit = no_limit;
  for (char const* const name : files.limits)
    limit = std::min(limit, leading_number(read_text(folder + '/' + name)).value_or(no_limit));
  auto const used = leading_number(read_text(folder + '/' + files.used));
  if (limit == no_limit || !used) return no_limit;
  auto const stat = read_text(folder + "/memory.stat");
  std::size_t unreclaimable = *used;
  for (char const* const name : files.cache)
    unreclaimable -= std::min(unreclaimable, number_after(name, stat).value_or(0));
  return limit - std::min(limit, unreclaimable);
}

/// The files in which control groups of version 1, and of version 2, count memory.
[[nodiscard]] inline group_files version_1_files(std::string const& root) {
  return {.mount = root + "/sys/fs/cgroup/memory",
          .limits = {"memory.limit_in_bytes"},
          .used = "memory.usage_in_bytes",
          .cache = {"total_inactive_file", "total_active_file"},
          .events = "memory.oom_control"};
}
[[nodiscard]] inline group_files version_2_files(std::string const& root) {
  return {.mount = root + "/sys/fs/cgroup",
          .limits = {"memory.max", "memory.high"},
          .used = "memory.current",
          .cache = {"inactive_file", "active_file"},
          .events = "memory.events"};
}

/// Calls f(folder, files) for every group that counts this process's memory, from the topmost
/// visible one down to its own. `root` is the folder that holds proc and sys.
template <class F>
void for_each_memory_group(std::string const& root, F&& f) {
  std::string const groups = read_text(root + "/proc/self/cgroup");
  for (std::string_view rest = groups; !rest.empty();) {  // lines "number:controllers:path"
    std::string_view const line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    auto const begin = line.find(':');
    auto const end = line.find(':', begin + 1);
    if (begin == std::string_view::npos || end == std::string_view::npos) continue;
    auto const controllers = "," + std::string(line.substr(begin + 1, end - begin - 1)) + ",";
    bool const is_version_2 = controllers == ",,";
    if (!is_version_2 && controllers.find(",memory,") == std::string::npos) continue;
    auto const files = is_version_2 ? version_2_files(root) : version_1_files(root);
    auto const path = line.substr(end + 1);
    f(files.mount, files);
    for (std::size_t end_of_name = 0; end_of_name < path.size();) {
      end_of_name = std::min(path.find('/', end_of_name + 1), path.size());
      f(files.mount + std::string(path.substr(0, end_of_name)), files);
    }
  }
}

}  // namespace detail

/// The bytes that this process can still allocate, at least a page: MemAvailable of the machine, or
/// what memory.max and memory.high (version 2) or memory.limit_in_bytes (version 1) of its control
/// groups leave, whichever is less. 0 if the system does not tell. `root` is the folder that holds
/// proc and sys.
[[nodiscard]] inline std::size_t available_memory(std::string const& root = "") {
  auto const machine =
      detail::number_after("MemAvailable:", detail::read_text(root + "/proc/meminfo"));
  if (!machine) return 0;
  std::size_t available = *machine * 1024;
  detail::for_each_memory_group(root, [&](std::string const& folder, auto const& files) {
    available = std::min(available, detail::available_in_group(folder, files));
  });
  return std::max<std::size_t>(available, 4096);
}

/// The number of processes that the system has killed for lack of memory. It tells such a kill from
/// any other SIGKILL.
struct memory_kills {
  std::size_t in_group = 0;    ///< in this process's visible control groups
  std::size_t on_machine = 0;  ///< on the whole machine, groups included

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
