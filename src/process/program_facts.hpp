// program_facts: what was started, and of which state of a repository.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <parallel/core/machine_name.hpp>

namespace apps {

/// The words by which this program was started, as a shell reads them; "": not known.
[[nodiscard]] inline std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line;
  for (std::string word; std::getline(file, word, '\0');) {
    bool const is_plain =
        !word.empty() && word.find_first_of(" \t\n\"'\\$&|;<>(){}[]*?~#`!") == std::string::npos;
    std::string quoted;
    for (char const c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += (line.empty() ? "" : " ") + (is_plain ? word : "'" + quoted + "'");
  }
  return line;
}

namespace detail {

/// The first line of a file; "" if there is none.
[[nodiscard]] inline std::string first_line_of(std::filesystem::path const& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The commit that git names `reference`, as "refs/heads/main", in its folder `git`.
[[nodiscard]] inline std::string commit_of_reference(std::filesystem::path const& git,
                                                     std::string const& reference) {
  if (auto commit = first_line_of(git / reference); !commit.empty()) return commit;
  std::ifstream packed(git / "packed-refs");
  for (std::string line; std::getline(packed, line);)
    if (line.ends_with(" " + reference)) return line.substr(0, line.find(' '));
  return "";
}

}  // namespace detail

/// The commit of the git repository that holds `folder`, as its files name it; "" if there is none.
[[nodiscard]] inline std::string commit_of(std::filesystem::path folder) {
  std::error_code unknown;
  while (!std::filesystem::exists(folder / ".git", unknown)) {
    if (folder == folder.parent_path()) return "";
    folder = folder.parent_path();
  }
  auto git = folder / ".git";
  constexpr std::string_view pointer = "gitdir: ", reference = "ref: ";
  if (auto const text = detail::first_line_of(git); text.starts_with(pointer))  // of a worktree
    git = folder / text.substr(pointer.size());
  auto const head = detail::first_line_of(git / "HEAD");
  if (!head.starts_with(reference)) return head;
  auto const common = detail::first_line_of(git / "commondir");
  return detail::commit_of_reference(common.empty() ? git : git / common,
                                     head.substr(reference.size()));
}

/// Where, how and of which commit this program was started, by name.
[[nodiscard]] inline std::vector<std::pair<std::string, std::string>> program_facts() {
  std::error_code gone;
  auto const folder = std::filesystem::current_path(gone);
  return {{"machine", parallel::machine_name()},
          {"command", command_line()},
          {"working_folder", folder.string()},
          {"commit", commit_of(folder)}};
}

}  // namespace apps
