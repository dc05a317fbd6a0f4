// Finds the checkpoint to continue from: the newest that all ranks together have read without
// damage.
//
// Parts of slices cannot be checked while they are loaded (reader.hpp), so ranks read everything
// once before, each its part, and learn what any of them found. A damaged checkpoint costs the
// batches since the previous one, not the run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/checkpoint/collective_read_errors.hpp>
#include <parallel/checkpoint/reader.hpp>
#include <parallel/comm/texts.hpp>

namespace parallel::checkpoint {

/// A checkpoint that ranks have opened and read together; the same on every rank.
struct checked_checkpoint {
  std::optional<checkpoint_reader> reader;  ///< none: its manifest is damaged
  std::string damage;  ///< the message of the first rank that found damage; or empty
};

/// Collective over `world`: opens the checkpoint `folder`, which is the same on every rank, and
/// reads it, each rank its part. Throws on every rank where the system does not allow one of them
/// to read (storage_error, access_error), which is not damage. Cost: all together read every byte
/// once; rank 0 alone reads the manifest and sends its text to the others.
template <class Comm, class Exchange>
[[nodiscard]] checked_checkpoint check_together(Comm& world, Exchange& exchanges,
                                                std::filesystem::path const& folder) {
  checked_checkpoint out;
  std::string manifest;
  detail::collective_read_errors reading;
  if (world.rank() == 0) reading.attempt([&] { manifest = read_manifest_text(folder); });
  manifest = broadcast_text(world, exchanges, std::move(manifest));
  if (!reading.failed())
    reading.attempt(
        [&] { out.reader.emplace(folder, manifest).verify(world.rank(), world.size()); });
  out.damage = reading.first_damage(world, exchanges);
  return out;
}

/// A checkpoint to continue from, open on every rank.
struct sound_checkpoint {
  checkpoint_reader reader;
  std::string note;  ///< which checkpoints were damaged and skipped, for the user; or empty
};

/// The reaction to a damaged checkpoint. A checkpoint that is set aside gets "-damaged" appended to
/// its name, so that prune neither counts nor removes it.
enum class if_damaged : std::uint8_t {
  stop,      // only this checkpoint is acceptable
  go_back,   // take the previous one: the damaged ones belong to another run
  set_aside  // take the previous one, and rename the damaged one
};

/// The newest checkpoint of an earlier batch, next to `folder`, that has a valid manifest, or "".
/// Throws as problem_of does.
[[nodiscard]] inline std::filesystem::path previous_checkpoint(
    std::filesystem::path const& folder) {
  auto const id = checkpoint_id::parse(folder.filename().native());
  if (!id) return {};
  for (auto const& entry : list_folders(files::parent_folder(folder)))
    if (entry.id < *id && problem_of(entry.folder).empty()) return entry.folder;
  return {};
}

namespace detail {

// Renames the folders; where a disk cannot be written, say, they keep their names.
inline void set_aside(std::vector<std::filesystem::path> const& damaged) {
  std::error_code stays;
  for (auto const& folder : damaged)
    std::filesystem::rename(folder, folder.native() + "-damaged", stays);
}

}  // namespace detail

/// Collective over `world`: the checkpoint `folder`, which is the same on every rank, if no rank
/// finds damage in it; else, unless `action` is to stop, the newest sound one before it, which rank
/// 0 chooses. Throws on every rank, in the same words, when there is none or the system does not
/// allow one of them to read, and leaves all names unchanged.
template <class Comm, class Exchange>
[[nodiscard]] sound_checkpoint find_sound(Comm& world, Exchange& exchanges,
                                          std::filesystem::path folder, if_damaged action) {
  bool const goes_back = action != if_damaged::stop;
  std::string damage;
  std::vector<std::filesystem::path> damaged;
  while (true) {
    auto checked = check_together(world, exchanges, folder);
    if (checked.damage.empty()) {
      if (action == if_damaged::set_aside && world.rank() == 0) detail::set_aside(damaged);
      return {std::move(checked.reader).value(),
              damage.empty() ? damage : concat(damage, "; went back to ", folder.native())};
    }
    damage += concat(damage.empty() ? "" : "; ", checked.damage);
    damaged.push_back(folder);
    std::filesystem::path next;
    detail::collective_read_errors reading;
    if (goes_back && world.rank() == 0)
      reading.attempt([&] { next = previous_checkpoint(folder); });
    static_cast<void>(reading.first_damage(world, exchanges));
    next = broadcast_text(world, exchanges, next.native());
    require(!next.empty(), damage,
            goes_back ? concat("; no earlier checkpoint in ", files::parent_folder(folder).native(),
                               " is sound; remove what is there to begin anew")
                      : std::string());
    folder = std::move(next);
  }
}

}  // namespace parallel::checkpoint
