// Saves a checkpoint: every rank writes its slices, rank 0 makes them one checkpoint.
//
//   rank 0:    prepare_save(target)          an empty temporary folder
//              barrier
//   all:       rank_writer w(target, rank);  w.add(...) for each slice;  records = w.finish()
//              gather the records at rank 0  (no rank's records before its files are on disk)
//   rank 0:    commit(target, records, state)
//
// Nothing is visible under the checkpoint's name before the last rename. A writer that is killed at
// any point leaves the previous checkpoints unchanged; the next save removes what it left. One
// program at a time saves into a folder: folder_claim.hpp. Cost: each slice is hashed and written
// once.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/checkpoint/atomic_folder.hpp>
#include <parallel/checkpoint/format/manifest.hpp>
#include <parallel/checkpoint/rank_writer.hpp>
#include <parallel/checkpoint/save_target.hpp>

namespace parallel::checkpoint {

/// Fails where `root` has a folder with the name of a link or file that saving replaces by a
/// rename: no rename replaces a folder. A copy of a folder of checkpoints that follows links has
/// such folders.
inline void require_no_folder(std::filesystem::path const& root, std::string_view name) {
  std::error_code ignored;  // nothing is in the way then
  auto const path = root / name;
  require(!std::filesystem::is_directory(std::filesystem::symlink_status(path, ignored)),
          path.native(), ": is a folder, but saving puts a ",
          name.find('.') == name.npos ? "link" : "file",
          " of this name there; rename or remove it");
}

/// For rank 0, first: creates the root if need be, removes leftovers of killed savers, and creates
/// the empty temporary folder. Where the root is claimed, the claim has removed the leftovers of
/// others.
inline void prepare_save(save_target const& target, action_hook const& on_action = {}) {
  files::announce(on_action, "create root");
  files::make_folders(target.root);
  require_no_folder(target.root, "latest");
  files::announce(on_action, "remove leftovers");
  if (target.generation == 0)
    remove_leftovers(target.root, is_name_in_root);
  else
    files::remove_tree(target.temporary());
  files::announce(on_action, "create temporary folder");
  files::make_folder(target.temporary());
}

/// Removes the temporary folder. Rank 0 calls it if any rank failed to save, for example because a
/// disk is full.
inline void abandon_save(save_target const& target) { files::remove_tree(target.temporary()); }

/// Makes `name` ("latest", "best") a link to this checkpoint in its root, replaced by one rename.
/// On file systems without links, which report various error codes, there is no link of this name,
/// and the newest checkpoint is the latest.
inline void point_link(save_target const& target, std::string const& name,
                       action_hook const& on_action = {}) {
  auto const& root = target.root;
  auto const temporary = temporary_name(root / name, target.token);
  files::announce(on_action, "create link");
  if (::unlink(temporary.c_str()) != 0 && errno != ENOENT)
    files::failure(temporary, "cannot remove");
  if (::symlink(target.id.text().c_str(), temporary.c_str()) != 0) {
    if (::unlink((root / name).c_str()) != 0 && errno != ENOENT)  // the link names an older one
      files::failure(root / name, "cannot remove");
    return;
  }
  files::announce(on_action, "rename link");
  files::rename(temporary, root / name);
  files::announce(on_action, "flush root");
  files::sync_folder(root);
}

struct commit_options {
  if_exists existing = if_exists::replace;
  action_hook on_action = {};
};

/// The manifest that the ranks' records and the program's `state`, a JSON object, make together.
/// Throws unless the ranks' slices tile every tensor.
[[nodiscard]] inline manifest manifest_of(save_target const& target,
                                          std::vector<std::string> const& records,
                                          std::string_view state) {
  auto const location = concat(target.folder().native(), " (being saved)");
  manifest content;
  content.writer = {target.generation, target.token};
  content.state = parse_json(state, concat(location, ": state"));
  require(content.state.is_object(), location, ": state must be a JSON object");
  for (std::size_t i = 0; i < records.size(); ++i) {
    auto const records_location = concat(location, ": records of rank ", i);
    add_slices(content.slices, parse_json(records[i], records_location), records_location);
  }
  check_tiling(content.slices, location);
  return content;
}

/// For rank 0, last: checks that the ranks' slices tile every tensor and that their files exist,
/// writes the manifest, gives the checkpoint its name, and points `latest` at it. `state`: a JSON
/// object, the program's own. If it throws, the previous checkpoints are unchanged.
inline void commit(save_target const& target, std::vector<std::string> const& records,
                   std::string_view state, commit_options const& options = {}) {
  auto const temporary = target.temporary();
  auto const content = manifest_of(target, records, state);
  for (auto const& [name, bytes] : content.slices.files) {
    std::error_code problem;
    auto const found = std::filesystem::file_size(temporary / name, problem);
    require(!problem && found == bytes, temporary.native(), ": a rank wrote ", name, " with ",
            bytes, " bytes, but rank 0 ",
            problem ? concat("does not find it (", problem.message(), ")")
                    : concat("sees ", found, " bytes"),
            "; all ranks must save into the same shared folder");
  }
  write_text_file(temporary / manifest_name, format_manifest(content, temporary.native()),
                  options.on_action);
  publish_folder(temporary, target.folder(), options.existing, options.on_action);
  point_link(target, "latest", options.on_action);
}

}  // namespace parallel::checkpoint
