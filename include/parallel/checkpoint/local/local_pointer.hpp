// local_pointer: a folder's record of the newest checkpoint on the nodes' own disks, and the check
// whether that is newer than all checkpoints of the folder.
//
// The record is the file `local.json`. A local checkpoint exists if and only if this file names it,
// with its manifest's checksum: so it belongs to the folder like the others, appears by one rename
// after all nodes have it, and what a node has written that had been taken for lost meanwhile does
// not count.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace parallel::checkpoint {

/// The largest pointer file that is read.
inline constexpr std::uint64_t max_local_pointer_bytes = 4096;

struct local_pointer {
  checkpoint_id id;
  index generation = 0;        ///< of the claim of the folder under which it was saved; 0: none
  std::uint64_t manifest = 0;  ///< checksum of its manifest's text

  friend bool operator==(local_pointer const&, local_pointer const&) = default;
};

/// The text of the file for `pointer`.
[[nodiscard]] inline std::string format_local_pointer(local_pointer const& pointer) {
  return concat("{\"checkpoint\": \"", pointer.id.text(),
                "\", \"generation\": ", pointer.generation, ", \"manifest\": \"",
                hexadecimal(pointer.manifest), "\"}\n");
}

/// Parses the text of the file, which messages name as `location`.
[[nodiscard]] inline local_pointer parse_local_pointer(std::string_view text,
                                                       std::string_view location) {
  auto const json = parse_json(text, location);
  auto const id = checkpoint_id::parse(string_member(json, "checkpoint", location));
  require(id.has_value(), location, ": \"checkpoint\" is not named like one, ep0-ba100");
  return {*id, natural_member(json, "generation", location),
          detail::parse_checksum(string_member(json, "manifest", location), location)};
}

/// The pointer of the folder `root`; none: it has none.
[[nodiscard]] inline std::optional<local_pointer> read_local_pointer(
    std::filesystem::path const& root) {
  auto const file = root / local_pointer_name;
  if (!files::exists(file)) return std::nullopt;
  return parse_local_pointer(read_text_file(file, max_local_pointer_bytes), file.native());
}

/// For rank 0, when all nodes have the checkpoint: replaces the pointer of the folder `root` by one
/// rename. `token`: of the claim of `root`.
inline void write_local_pointer(std::filesystem::path const& root, local_pointer const& pointer,
                                std::uint64_t token, action_hook const& on_action = {}) {
  files::make_folders(root);
  auto const temporary = temporary_name(root / local_pointer_name, token);
  write_text_file(temporary, format_local_pointer(pointer), on_action);
  files::announce(on_action, "rename pointer");
  files::rename(temporary, root / local_pointer_name);
  files::announce(on_action, "flush root");
  files::sync_folder(root);
}

/// The local checkpoint of the folder `root` that is newer than its latest: of a later run in it,
/// or of the same run and a later batch. None: there is none. Throws when the file cannot be read.
[[nodiscard]] inline std::optional<local_pointer> newer_local_checkpoint(
    std::filesystem::path const& root) {
  auto const pointer = read_local_pointer(root);
  if (!pointer) return std::nullopt;
  auto const newest = latest(root).folder;
  if (!newest) return pointer;
  auto const id = checkpoint_id::parse(newest->filename().native());
  auto const generation = read_manifest(*newest).writer.generation;
  bool const newer =
      generation != pointer->generation ? pointer->generation > generation : pointer->id > id;
  return newer ? pointer : std::nullopt;
}

/// For a run that continues from `root` without the nodes' folders: a note on the local checkpoint
/// that it ignores; or "".
[[nodiscard]] inline std::string note_on_local_checkpoint(std::filesystem::path const& root) {
  try {
    auto const left = newer_local_checkpoint(root);
    return left ? concat("a newer checkpoint, ", left->id.text(),
                         ", is on the nodes' own disks; start again with local_save_folder to go "
                         "on from it")
                : std::string();
  } catch (error const& problem) {
    return problem.what();
  }
}

}  // namespace parallel::checkpoint
