// noted_saves: notes that a start of `launch` has saved a checkpoint. A later start refuses a
// save_folder that is empty although one was saved (a lost mount, a removed folder), instead of
// beginning the run anew.
//
// The note is a file beside the folder in which the ranks of a start meet. All starts of one launch
// share it, and the launch removes it.
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

#include <launch/launch.hpp>
#include <launch/launch_environment.hpp>

namespace apps {

/// The file of the note; none: `launch` did not start this process.
[[nodiscard]] inline std::optional<std::filesystem::path> file_of_noted_saves() {
  auto const series = series_of_starts();
  if (series.empty()) return std::nullopt;
  std::filesystem::path const meeting = std::getenv(launch_environment::rendezvous);
  return meeting.parent_path() / (series + "-saved");
}

/// A hook of savers that notes, once, that a checkpoint is in `folder`. It calls `next` first.
[[nodiscard]] inline parallel::action_hook note_saves(std::filesystem::path folder,
                                                      parallel::action_hook next) {
  auto const file = file_of_noted_saves();
  if (!file) return next;
  return [file = *file, folder = std::filesystem::absolute(folder), next = std::move(next),
          is_noted = std::make_shared<std::atomic<bool>>(false)](std::string_view action) {
    parallel::files::announce(next, action);
    // the last action of a save: the checkpoint has its final name
    if (action == "create link" && !is_noted->exchange(true))
      std::ofstream(file) << folder.native();
  };
}

/// Fails if an earlier start of this launch has saved into `folder` and it holds no checkpoint now.
inline void require_noted_saves(std::filesystem::path const& folder) {
  auto const file = file_of_noted_saves();
  std::string noted_folder;
  if (!file || !std::getline(std::ifstream(*file), noted_folder) ||
      noted_folder != std::filesystem::absolute(folder).native())
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
