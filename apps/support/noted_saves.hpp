// noted_saves: what a start of `launch` has saved is known to the next one, so that a save_folder
// that is suddenly empty (a mount that is lost, a folder that was removed) does not begin a run
// anew.
//
// The note is a file beside the folder in which the ranks of a start meet: of all starts of one
// launch, and removed with it.
#pragma once

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/file.hpp>

#include "support/launch.hpp"
#include "support/launch_environment.hpp"

namespace apps {

/// The file of the note; none: this process is not of a start of `launch`.
[[nodiscard]] inline std::optional<std::filesystem::path> file_of_noted_saves() {
  auto const series = series_of_starts();
  if (series.empty()) return std::nullopt;
  std::filesystem::path const meeting = std::getenv(launch_environment::rendezvous);
  return meeting.parent_path() / (series + "-saved");
}

/// Notes, once, that a checkpoint is in `folder`; a hook of savers, which calls `other` first.
[[nodiscard]] inline parallel::action_hook noting_saves(std::filesystem::path folder,
                                                        parallel::action_hook other) {
  auto const file = file_of_noted_saves();
  if (!file) return other;
  return [file = *file, folder = std::filesystem::absolute(folder), other = std::move(other),
          noted = std::make_shared<std::atomic<bool>>(false)](std::string_view action) {
    parallel::files::announce(other, action);
    // the last action of a save, when the checkpoint has its name
    if (action == "create link" && !noted->exchange(true)) std::ofstream(file) << folder.native();
  };
}

/// Fails where an earlier start of this launch has saved into `folder`, and no checkpoint is there
/// now.
inline void require_noted_saves(std::filesystem::path const& folder) {
  auto const file = file_of_noted_saves();
  std::string noted;
  if (!file || !std::getline(std::ifstream(*file), noted) ||
      noted != std::filesystem::absolute(folder).native())
    return;
  if (parallel::files::exists(folder)) {
    auto const found = parallel::checkpoint::latest(folder);
    if (found.folder || !found.note.empty()) return;
  }
  parallel::fail<parallel::storage_error>(
      folder.native(),
      ": an earlier start of this run has saved checkpoints here, and now there is none: the "
      "folder was removed or emptied, or its disk is not mounted; bring it back and start again, "
      "or remove it and start a new launch to begin at batch 0");
}

}  // namespace apps
