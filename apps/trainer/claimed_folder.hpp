// Claims the folders into which a run saves, so that no other run writes there.
//
// noted_saves: notes that a start of `launch` has saved a checkpoint. A later start refuses a
// save_folder that is empty although one was saved (a lost mount, a removed folder), instead of
// beginning the run anew.
//
// The note is a file next to the folder in which the ranks of a start meet. All starts of one
// launch share it, and the launch removes it.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <launch/launch.hpp>
#include <launch/launch_environment.hpp>
#include <mpt/config/train.hpp>
#include <mpt/log/run_journal.hpp>
#include <mpt/train/report/metrics.hpp>
#include <mpt/train/run_training.hpp>
#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/checkpoint/claims/claim_file.hpp>
#include <parallel/checkpoint/claims/folder_claim.hpp>
#include <parallel/checkpoint/local/node_map.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/hexadecimal.hpp>
#include <parallel/core/patience.hpp>
#include <parallel/core/reduction.hpp>
#include <parallel/device/host/stream.hpp>

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

/// The claims of a rank; they last as long as this object.
struct folder_claims {
  std::unique_ptr<parallel::checkpoint::folder_claim> shared;  // on rank 0: save_folder
  std::unique_ptr<parallel::checkpoint::folder_claim> local;   // on each node's first rank
};

/// Makes `folder` and fails unless files can be written in it.
inline void require_writable(std::filesystem::path const& folder) {
  parallel::files::make_folders(folder);
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    parallel::files::failure(folder, "cannot write into this folder");
}

/// Fails if a folder in save_folder has the name of a link or file that the run writes there.
inline void require_names_for_saves(mpt::data_config const& data,
                                    mpt::checkpoint_config const& checkpoint) {
  std::vector<std::string_view> names{"latest", "summary.json", mpt::journal_name};
  if (!data.eval_loaders.empty()) names.emplace_back("best");
  if (!checkpoint.local_save_folder.empty())
    names.push_back(parallel::checkpoint::local_pointer_name);
  for (auto const name : names)
    parallel::checkpoint::require_no_folder(checkpoint.save_folder, name);
}

/// Fails unless all nodes see the claim that rank 0 has made in its `folder`. They may not:
/// relative names mean different folders in different working directories, and a disk may not be
/// shared. Collective.
inline void require_one_folder(std::filesystem::path const& folder,
                               parallel::checkpoint::claim_id owner,
                               parallel::checkpoint::node_map const& nodes,
                               parallel::any_communicator& comm) {
  namespace claims = parallel::checkpoint::claim_files;
  parallel::host::stream exchanges;
  int const rank = comm.rank();
  auto const folders =
      parallel::gather_texts(comm, exchanges, std::filesystem::absolute(folder).string());
  auto const& own_folder = folders[static_cast<std::size_t>(rank)];
  auto const sees_claim = [&] {
    try {
      auto const found = claims::read(claims::file_of(folder, owner.generation));
      return found && found->token == parallel::hexadecimal(owner.token);
    } catch (parallel::error const&) {
      return false;
    }
  };
  // a disk that machines share may show a new file late
  parallel::patience limit(own_folder == folders[0] ? std::chrono::seconds(60)
                                                    : std::chrono::seconds(5));
  std::string problem;
  while (rank != 0 && nodes.is_first(rank) && problem.empty() && !sees_claim()) {
    if (limit.is_over())
      problem = fmt::format(
          "save_folder is not one folder for all nodes: rank {} on {} looks into {} and does not "
          "see what rank 0 has written into {}; start all nodes in one working directory, or name "
          "a folder by an absolute path on a disk that all share",
          rank, node_name(), own_folder, folders[0]);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  for (auto const& text : parallel::gather_texts(comm, exchanges, problem))
    if (!text.empty()) throw refusal(text);
}

/// Checks that the run can write its files, and claims its folders of checkpoints, if it has any.
/// The `hooks` of the run then check the claims. Collective. A rank may wait to see whether an
/// earlier owner of a folder is still alive; the other ranks exchange messages meanwhile, so that
/// none reaches its deadline.
[[nodiscard]] inline folder_claims claim_save_folders(mpt::data_config const& data,
                                                      mpt::checkpoint_config const& saves,
                                                      mpt::callbacks_config const& callbacks,
                                                      mpt::output_config const& output,
                                                      parallel::any_communicator& comm,
                                                      mpt::run_hooks& hooks) {
  using parallel::checkpoint::folder_claim;
  parallel::host::stream exchanges;
  hooks.nodes.emplace(parallel::gather_texts(comm, exchanges, node_name()));
  auto claimed = std::async(std::launch::async, [&, rank = comm.rank()] {
    auto const claim = [](std::string const& folder) {
      return std::make_unique<folder_claim>(
          folder, parallel::checkpoint::claim_options{.series = series_of_starts()});
    };
    folder_claims out;
    if (rank == 0) {
      // a pipe is not opened: its reader would see the end of the file when it is closed here
      std::error_code unreadable;
      if (auto const& file = output.metrics_file; !std::filesystem::is_fifo(file, unreadable))
        static_cast<void>(mpt::metrics_file(file));
      if (auto const& exports = callbacks.hf_checkpointer) require_writable(exports->save_folder);
      if (!saves.save_folder.empty()) {
        if (saves.autoresume) require_noted_saves(saves.save_folder);
        require_names_for_saves(data, saves);
        out.shared = claim(saves.save_folder);
      }
    }
    auto const local_folder = mpt::local_folder_of(saves, *hooks.nodes, rank);
    if (local_folder && hooks.nodes->is_first(rank))
      out.local = claim(local_folder->folder.string());
    return out;
  });
  for (std::int64_t waiting = 1; waiting != 0;) {
    waiting = claimed.wait_for(std::chrono::seconds(1)) == std::future_status::ready ? 0 : 1;
    comm.all_reduce(exchanges, std::span(&waiting, 1), parallel::reduction::max).wait();
  }
  folder_claims claims;
  std::string problem, storage_problem, use_problem;
  try {
    claims = claimed.get();
  } catch (parallel::storage_error const& failed) {
    storage_problem = failed.what();
  } catch (parallel::checkpoint::folder_in_use const& refused) {
    use_problem = refused.what();
  } catch (parallel::error const& refused) {
    problem = refused.what();
  }
  for (auto const& text : parallel::gather_texts(comm, exchanges, storage_problem))
    if (!text.empty()) throw parallel::storage_error(text);
  for (auto const& text : parallel::gather_texts(comm, exchanges, use_problem))
    if (!text.empty()) throw refusal(text, exit_code::in_use);
  for (auto const& text : parallel::gather_texts(comm, exchanges, problem))
    if (!text.empty()) throw refusal(text);
  if (claims.shared) hooks.owner = claims.shared->id();
  std::array<std::uint64_t, 2> owner{static_cast<std::uint64_t>(hooks.owner.generation),
                                     hooks.owner.token};
  comm.broadcast(exchanges, std::span<std::uint64_t>(owner), 0).wait();
  hooks.owner = {static_cast<parallel::index>(owner[0]), owner[1]};
  if (!saves.save_folder.empty())
    require_one_folder(saves.save_folder, hooks.owner, *hooks.nodes, comm);
  if (claims.local) hooks.on_local_save = claims.local->guard(hooks.on_save);
  if (!claims.shared) return claims;
  hooks.on_save = claims.shared->guard(note_saves(saves.save_folder, hooks.on_save));
  hooks.stop_asked = [&claim = *claims.shared, is_stop_asked = hooks.stop_asked] {
    claim.require_recent();
    return is_stop_asked();
  };
  return claims;
}

}  // namespace apps
