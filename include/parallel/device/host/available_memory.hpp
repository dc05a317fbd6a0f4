// How much more memory this process may take: what the machine has left, or less where a control
// group (a container, a job of a batch system) has a limit.
//
// A group's limit holds for all groups below it, so the process's own group and all above it are
// asked, as far as they can be seen: in a container often only the topmost folder, which then is
// the container's own. Pages of files count as used there, but the system takes them back when
// memory is asked for.
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

/// The number that `text` begins with; none: it begins with none, as the "max" of no limit.
[[nodiscard]] inline std::optional<std::size_t> number_in(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::size_t number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc{})
    return std::nullopt;
  return number;
}

/// The number of the line "NAME number", where there is one.
[[nodiscard]] inline std::optional<std::size_t> number_of(std::string_view name,
                                                          std::string_view text) {
  while (!text.empty()) {
    auto const line = text.substr(0, text.find('\n'));
    if (line.starts_with(name)) {
      auto const rest = line.substr(name.size());
      if (rest.starts_with(' ') || rest.starts_with('\t')) return number_in(rest);
    }
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return std::nullopt;
}

/// All of a file; "" when it cannot be read.
[[nodiscard]] inline std::string text_of(std::string const& file) {
  std::string text;
  std::FILE* const in = std::fopen(file.c_str(), "r");
  if (in == nullptr) return text;
  char piece[4096];
  while (auto const count = std::fread(piece, 1, sizeof piece, in)) text.append(piece, count);
  std::fclose(in);
  return text;
}

/// What the files of one version of control groups are called.
struct group_files {
  std::string mount;
  std::vector<char const*> limits;
  char const* used;
  std::vector<char const*> cache;  // lines of memory.stat
  char const* events;              // has the line "oom_kill number"
};

/// What the limits of one group leave; all there is where it has none.
[[nodiscard]] inline std::size_t left_in_group(std::string const& folder,
                                               group_files const& files) {
  constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  std::size_t limit = none;
  for (char const* const name : files.limits)
    limit = std::min(limit, number_in(text_of(folder + '/' + name)).value_or(none));
  auto const used = number_in(text_of(folder + '/' + files.used));
  if (limit == none || !used) return none;
  auto const stat = text_of(folder + "/memory.stat");
  std::size_t taken = *used;
  for (char const* const name : files.cache)
    taken -= std::min(taken, number_of(name, stat).value_or(0));
  return limit - std::min(limit, taken);
}

/// Where control groups of version 1 count memory, and of version 2.
[[nodiscard]] inline group_files first_version(std::string const& root) {
  return {.mount = root + "/sys/fs/cgroup/memory",
          .limits = {"memory.limit_in_bytes"},
          .used = "memory.usage_in_bytes",
          .cache = {"total_inactive_file", "total_active_file"},
          .events = "memory.oom_control"};
}
[[nodiscard]] inline group_files second_version(std::string const& root) {
  return {.mount = root + "/sys/fs/cgroup",
          .limits = {"memory.max", "memory.high"},
          .used = "memory.current",
          .cache = {"inactive_file", "active_file"},
          .events = "memory.events"};
}

/// Calls f(folder, files) for every group that counts this process's memory, from the topmost that
/// can be seen down to its own. `root`: where proc and sys are.
template <class F>
void for_each_memory_group(std::string const& root, F&& f) {
  std::string const groups = text_of(root + "/proc/self/cgroup");
  for (std::string_view rest = groups; !rest.empty();) {  // lines "number:controllers:path"
    std::string_view const line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    auto const begin = line.find(':');
    auto const end = line.find(':', begin + 1);
    if (begin == std::string_view::npos || end == std::string_view::npos) continue;
    auto const controllers = "," + std::string(line.substr(begin + 1, end - begin - 1)) + ",";
    bool const is_second = controllers == ",,";
    if (!is_second && controllers.find(",memory,") == std::string::npos) continue;
    auto const files = is_second ? second_version(root) : first_version(root);
    auto const path = line.substr(end + 1);
    f(files.mount, files);
    for (std::size_t at = 0; at < path.size();) {
      at = std::min(path.find('/', at + 1), path.size());
      f(files.mount + std::string(path.substr(0, at)), files);
    }
  }
}

}  // namespace detail

/// Bytes that this process may still take, at least a page: what the machine has left
/// (MemAvailable), or what memory.max and memory.high (version 2), or memory.limit_in_bytes
/// (version 1), of its control groups leave, if that is less. 0 when the system does not tell.
/// `root`: where proc and sys are.
[[nodiscard]] inline std::size_t available_memory(std::string const& root = "") {
  auto const machine = detail::number_of("MemAvailable:", detail::text_of(root + "/proc/meminfo"));
  if (!machine) return 0;
  std::size_t least = *machine * 1024;
  detail::for_each_memory_group(root, [&](std::string const& folder, auto const& files) {
    least = std::min(least, detail::left_in_group(folder, files));
  });
  return std::max<std::size_t>(least, 4096);
}

}  // namespace parallel::host
