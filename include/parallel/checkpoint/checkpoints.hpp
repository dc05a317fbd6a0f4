// The checkpoints of a folder: listing them, finding the latest, keeping the last k.
//
// A checkpoint exists if and only if its folder has its final name and a valid manifest, so these
// functions examine nothing else; the link `latest` is a convenience that may be missing or stale.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <parallel/checkpoint/format/manifest.hpp>
#include <parallel/checkpoint/save_target.hpp>

namespace parallel::checkpoint {

/// A folder named like a checkpoint.
struct checkpoint_entry {
  checkpoint_id id;
  std::filesystem::path folder;
  std::string problem;  ///< why it is not a checkpoint; empty: it is one

  [[nodiscard]] bool valid() const { return problem.empty(); }
};

/// The reason why the folder is not a checkpoint; empty when it is one. Reads its manifest, not its
/// tensors. Throws where that is unknown because the system does not allow it to be read
/// (storage_error, access_error).
[[nodiscard]] inline std::string problem_of(std::filesystem::path const& folder) {
  try {
    static_cast<void>(read_manifest(folder));
    return {};
  } catch (error const& problem) {
    if (is_system_error(problem)) throw;
    return problem.what();
  }
}

/// All folders under `root` named like checkpoints, newest first, without reading them. None when
/// `root` does not exist.
[[nodiscard]] inline std::vector<checkpoint_entry> list_folders(std::filesystem::path const& root) {
  std::vector<checkpoint_entry> out;
  if (!files::exists(root)) return out;
  for (auto const& path : files::list(root)) {
    auto const id = checkpoint_id::parse(path.filename().native());
    std::error_code ignored;
    if (id && std::filesystem::is_directory(path, ignored)) out.push_back({*id, path, {}});
  }
  std::sort(out.begin(), out.end(), [](auto const& a, auto const& b) { return a.id > b.id; });
  return out;
}

/// The checkpoints of list_folders, each with what is wrong with its manifest or its files' sizes,
/// or why they cannot be read.
[[nodiscard]] inline std::vector<checkpoint_entry> list_checkpoints(
    std::filesystem::path const& root) {
  auto out = list_folders(root);
  for (auto& entry : out) {
    try {
      entry.problem = problem_of(entry.folder);
    } catch (error const& unreadable) {
      entry.problem = unreadable.what();
    }
  }
  return out;
}

/// Whether the folder has a complete manifest as `commit` wrote it. It is not parsed.
[[nodiscard]] inline bool has_whole_manifest(std::filesystem::path const& folder) {
  try {
    return is_whole_manifest(read_text_file(folder / manifest_name, max_manifest_bytes));
  } catch (error const&) {
    return false;
  }
}

/// The result of `latest`.
struct latest_checkpoint {
  std::optional<std::filesystem::path> folder;  ///< none: there is no checkpoint
  std::string note;                             ///< what was unexpected, for the user; or empty
};

/// The checkpoint that the link `latest` names; when the link is missing or does not name a valid
/// checkpoint, the newest valid one, and a note that says so. Throws as problem_of does.
[[nodiscard]] inline latest_checkpoint latest(std::filesystem::path const& root) {
  auto const link = root / "latest";
  std::error_code unreadable;
  auto const target = std::filesystem::read_symlink(link, unreadable);
  latest_checkpoint result;
  if (unreadable) {
    result.note = concat(link.native(), ": no such link");
  } else if (!checkpoint_id::parse(target.native())) {
    result.note = concat(link.native(), ": does not name a checkpoint");
  } else if (auto const problem = problem_of(root / target); problem.empty()) {
    result.folder = root / target;
    return result;
  } else {
    result.note =
        concat(link.native(), ": names ", target.native(), ", which is not valid (", problem, ")");
  }
  auto entries = list_folders(root);
  auto const newest = std::find_if(entries.begin(), entries.end(), [](auto& entry) {
    entry.problem = problem_of(entry.folder);
    return entry.valid();
  });
  if (newest != entries.end()) {
    result.folder = newest->folder;
    result.note += concat("; took the newest valid checkpoint, ", newest->id.text());
  } else if (entries.empty() && unreadable) {
    result.note.clear();  // nothing was ever saved here
  } else {
    for (auto const& entry : entries) result.note += concat("; ", entry.problem);
    result.note += "; there is no valid checkpoint";
  }
  return result;
}

/// Removes all but the newest `keep` checkpoints with a complete manifest, oldest first, and never
/// the one that the link `latest` names. Other folders neither count nor are removed: someone may
/// want to rescue them. Checkpoints of every `keep_every`-th batch stay too; 0: none. Cost: reads
/// manifests, opens no other file. Returns the folders removed. Rank 0 calls it after `commit`.
inline std::vector<std::filesystem::path> prune(std::filesystem::path const& root, index keep,
                                                action_hook const& on_action = {},
                                                index keep_every = 0) {
  require(keep >= 1, root.native(), ": at least one checkpoint must be kept, not ", keep);
  auto entries = list_folders(root);
  std::erase_if(entries, [](auto const& entry) { return !has_whole_manifest(entry.folder); });
  std::error_code unreadable;
  auto const latest = std::filesystem::read_symlink(root / "latest", unreadable);
  auto const best =
      std::filesystem::read_symlink(root / "best", unreadable);  // "" if there is none
  std::vector<std::filesystem::path> removed;
  for (auto i = static_cast<index>(entries.size()) - 1; i >= keep; --i) {
    auto const& entry = entries[static_cast<std::size_t>(i)];
    if (latest == entry.id.text() || best == entry.id.text()) continue;
    if (keep_every > 0 && entry.id.batch % keep_every == 0) continue;
    remove_folder(entry.folder, on_action);
    removed.push_back(entry.folder);
  }
  if (!removed.empty()) files::sync_folder(root);
  return removed;
}

/// Removes the folders named like checkpoints for which `is_obsolete(id)` holds, oldest first.
/// Returns them.
template <class Predicate>
std::vector<std::filesystem::path> remove_folders(std::filesystem::path const& root,
                                                  Predicate is_obsolete,
                                                  action_hook const& on_action = {}) {
  auto const entries = list_folders(root);
  std::vector<std::filesystem::path> removed;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (!is_obsolete(entry->id)) continue;
    remove_folder(entry->folder, on_action);
    removed.push_back(entry->folder);
  }
  if (!removed.empty()) files::sync_folder(root);
  return removed;
}

/// Removes all folders named like checkpoints of later batches than `last`, oldest first. For a run
/// that starts afresh, or goes back, over another one's checkpoints: called after its first commit,
/// it leaves none that `prune` or `latest` could take for newer ones. Returns the folders removed.
inline std::vector<std::filesystem::path> remove_after(std::filesystem::path const& root,
                                                       checkpoint_id last,
                                                       action_hook const& on_action = {}) {
  return remove_folders(
      root, [&](checkpoint_id id) { return id > last; }, on_action);
}

}  // namespace parallel::checkpoint
