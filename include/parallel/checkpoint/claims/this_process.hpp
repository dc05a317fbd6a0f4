// this_process: identifies in a file the process that wrote it, and tells whether it still lives.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include <parallel/core/error.hpp>
#include <parallel/core/machine_name.hpp>

namespace parallel::checkpoint {

/// "process 12 on host since 2026-11-24 13:00:00 UTC".
[[nodiscard]] inline std::string name_of_this_process() {
  auto const seconds = std::time(nullptr);
  std::tm parts{};
  std::array<char, 32> time{};
  static_cast<void>(::gmtime_r(&seconds, &parts));
  static_cast<void>(std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S UTC", &parts));
  return concat("process ", ::getpid(), " on ", machine_name(), " since ", time.data());
}

namespace detail {

[[nodiscard]] inline std::string whole_text_of(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The fields of /proc/PID/stat after the name, which may hold anything: the first is the state,
/// the twentieth the time of the start, in ticks since the machine's start.
struct process_stat {
  char state = '?';
  std::string start;

  explicit process_stat(std::string_view text) {
    auto const closing = text.rfind(')');
    if (closing == std::string_view::npos || closing + 2 >= text.size()) return;
    text.remove_prefix(closing + 2);
    state = text.front();
    for (int field = 0; field < 19; ++field) {
      auto const space = text.find(' ');
      if (space == std::string_view::npos) return;
      text.remove_prefix(space + 1);
    }
    start = text.substr(0, text.find(' '));
  }
};

}  // namespace detail

/// The scope in which process numbers mean the same as here: this start of this machine, and this
/// container on it. Empty: the system does not tell.
[[nodiscard]] inline std::string scope_of_processes() {
  auto boot = detail::whole_text_of("/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  std::error_code problem;
  auto const space = std::filesystem::read_symlink("/proc/self/ns/pid", problem).native();
  return boot.empty() || problem ? std::string() : concat(boot, "/", space);
}

/// Identifies one process of a scope, never a later one with the same number: "12/34567".
[[nodiscard]] inline std::string number_of_this_process() {
  return concat(::getpid(), "/",
                detail::process_stat(detail::whole_text_of("/proc/self/stat")).start);
}

/// Whether the process `number` of this scope has ended. False where that is unknown.
[[nodiscard]] inline bool has_ended(std::string_view number) {
  pid_t id = 0;
  auto const [end, problem] = std::from_chars(number.data(), number.data() + number.size(), id);
  if (problem != std::errc() || id <= 0 || end == number.data() + number.size() || *end != '/')
    return false;
  if (::kill(id, 0) != 0 && errno == ESRCH) return true;
  auto const found = detail::process_stat(detail::whole_text_of(concat("/proc/", id, "/stat")));
  if (found.start.empty()) return false;  // hidden from this user
  return found.start != std::string_view(end + 1, number.data() + number.size()) ||
         found.state == 'Z' || found.state == 'X';
}

}  // namespace parallel::checkpoint
