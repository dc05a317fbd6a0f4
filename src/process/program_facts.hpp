// program_facts: what was started, and of which state of a repository.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <parallel/core/file.hpp>
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

/// The lines of a small text file; none where there is none that can be read without waiting.
[[nodiscard]] inline std::vector<std::string> lines_of(std::filesystem::path const& file) try {
  std::istringstream in(parallel::read_text_file(file, std::uint64_t{4} << 20));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
} catch (parallel::error const&) {
  return {};
}
[[nodiscard]] inline std::string first_line_of(std::filesystem::path const& file) {
  auto const lines = lines_of(file);
  return lines.empty() ? "" : lines.front();
}

/// The text, if it is a commit's name; else "".
[[nodiscard]] inline std::string commit_in(std::string const& text) {
  bool const is_commit = (text.size() == 40 || text.size() == 64) &&
                         text.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_commit ? text : "";
}

/// The commit that git names `reference`, as "refs/heads/main", in its folder `git`.
[[nodiscard]] inline std::string commit_of_reference(std::filesystem::path const& git,
                                                     std::string const& reference) {
  if (!reference.starts_with("refs/") || reference.find("..") != std::string::npos) return "";
  if (auto commit = commit_in(first_line_of(git / reference)); !commit.empty()) return commit;
  for (auto const& line : lines_of(git / "packed-refs"))
    if (line.ends_with(" " + reference)) return commit_in(line.substr(0, line.find(' ')));
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
  if (!head.starts_with(reference)) return detail::commit_in(head);
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
