// Folders that appear completely or not at all: written under a temporary name, flushed, renamed.
//
// Names: `X.tmp-<token>` is being written, `X.trash-<token>` is being removed, `X.old-<token>` is
// being replaced by a new X; none is ever taken for X. What a killed program left under such names
// is removed by the next writer, except an old X without a new one, which becomes X again.
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <parallel/core/file.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace parallel::checkpoint {

/// The treatment of an existing folder that has the name of a new one.
enum class if_exists { refuse, replace };

/// The path to which the next content of `folder` is written: `folder` + ".tmp-" + token.
[[nodiscard]] inline std::filesystem::path temporary_name(std::filesystem::path folder,
                                                          std::uint64_t token) {
  folder += ".tmp-" + hexadecimal(token);
  return folder;
}

/// The name before ".tmp-", ".trash-" or ".old-" and 16 digits; empty when `name` is no such name.
[[nodiscard]] inline std::string_view name_of_leftover(std::string_view name) {
  for (std::string_view const mark : {".tmp-", ".trash-", ".old-"}) {
    auto const begin = name.rfind(mark);
    if (begin != std::string_view::npos && begin > 0 && name.size() == begin + mark.size() + 16 &&
        is_hexadecimal(name.substr(begin + mark.size())))
      return name.substr(0, begin);
  }
  return {};
}

/// The first unused name for what is removed from `name`, or replaced there.
[[nodiscard]] inline std::filesystem::path free_name(std::filesystem::path const& name,
                                                     std::string_view mark = ".trash-") {
  for (std::uint64_t token = 0;; ++token) {
    auto free = name;
    free += concat(mark, hexadecimal(token));
    if (!files::exists(free)) return free;
  }
}

/// Removes `folder`: renames it first, so that half of it is never seen under its name.
inline void remove_folder(std::filesystem::path const& folder, action_hook const& on_action = {}) {
  auto const trash = free_name(folder);
  files::announce(on_action, "rename to trash");
  files::rename(folder, trash);
  files::announce(on_action, "remove trash");
  files::remove_tree(trash);
}

/// Removes the leftovers in `parent` of names for which `is_ours(name)` holds. A leftover that a
/// living program still writes never gets its final name after this.
template <class Predicate>
void remove_leftovers(std::filesystem::path const& parent, Predicate is_ours) {
  for (auto const& path : files::list(parent)) {
    auto const name = path.filename().native();
    auto const original = name_of_leftover(name);
    if (original.empty() || !is_ours(original)) continue;
    auto const mark = name.substr(original.size());
    if (mark.starts_with(".old-") && !files::exists(parent / original)) {
      files::rename(path, parent / original);
      continue;
    }
    if (!mark.starts_with(".tmp-")) {
      files::remove_tree(path);
      continue;
    }
    // Renamed before it is removed, so that its writer gives it its final name whole or not at all.
    auto const trash = free_name(parent / original);
    std::error_code problem;
    std::filesystem::rename(path, trash, problem);
    if (problem == std::errc::no_such_file_or_directory) continue;  // it has its name
    if (problem) files::failure(path, "cannot rename this leftover", problem.value());
    files::remove_tree(trash);
  }
}

/// Gives the complete folder `temporary` its final name: flushes it, renames it, flushes the
/// parent. Its files must have been flushed already. With `replace`, the two folders are exchanged
/// in one step where the file system can do that, else the old one is renamed first; then it is
/// removed.
inline void publish_folder(std::filesystem::path const& temporary,
                           std::filesystem::path const& final_name, if_exists policy,
                           action_hook const& on_action = {}) {
  files::announce(on_action, "flush temporary folder");
  files::sync_folder(temporary);
  auto const parent = files::parent_folder(final_name);
  bool const exists = files::exists(final_name);
  require(!exists || policy == if_exists::replace, final_name.native(),
          ": exists already; choose another name, or allow it to be replaced");
  files::announce(on_action, "rename folder");
  if (!exists) {
    files::rename(temporary, final_name);
  } else if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final_name.c_str(),
                         RENAME_EXCHANGE) == 0) {
    files::announce(on_action, "flush parent of exchanged folders");
    files::sync_folder(parent);
    files::announce(on_action, "remove replaced content");
    files::remove_tree(temporary);  // it holds the old content now
  } else {
    // A file system that cannot exchange, which it reports by one of many codes; any other problem
    // appears again in the calls that follow.
    auto const old = free_name(final_name, ".old-");
    files::rename(final_name, old);
    files::announce(on_action, "rename folder in place of the old one");
    files::rename(temporary, final_name);
    files::announce(on_action, "flush parent of replaced folder");
    files::sync_folder(parent);
    files::announce(on_action, "remove replaced content");
    files::remove_tree(old);
  }
  files::announce(on_action, "flush parent folder");
  files::sync_folder(parent);
}

}  // namespace parallel::checkpoint
