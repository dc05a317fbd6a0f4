// Which checkpoint to go on from: the newest that all ranks together have read and found whole.
//
// Parts of slices cannot be checked while they are loaded (reader.hpp), so ranks read everything
// once before, each its part, and hear what any of them found. A damaged one costs the batches
// since the one before it, not the run.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/checkpoint/reader.hpp>
#include <parallel/comm/texts.hpp>

namespace parallel::checkpoint {

/// Collective over `world`: reads the checkpoint `folder`, which is the same on every rank, each
/// rank its part. Returns on every rank what the first rank that found damage says of it; "" when
/// none did. Cost: the checkpoint is read once by all together, its manifest by each.
template <class Comm, class Exchange>
[[nodiscard]] std::string damage_found(Comm& world, Exchange& exchanges,
                                       std::filesystem::path const& folder) {
  std::string mine;
  try {
    checkpoint_reader(folder).verify(world.rank(), world.size());
  } catch (error const& problem) {
    mine = problem.what();
  }
  auto const all = gather_texts(world, exchanges, mine);
  auto const first = std::ranges::find_if(all, [](auto const& text) { return !text.empty(); });
  if (first == all.end()) return {};
  return concat("rank ", first - all.begin(), ": ", *first);
}

/// What `find_sound` found, the same on every rank.
struct sound_checkpoint {
  std::filesystem::path folder;
  std::string note;  // which were damaged and passed over, for the user; or empty
};

/// The newest checkpoint beside `folder` of an earlier batch that has a valid manifest; "" when
/// there is none.
[[nodiscard]] inline std::filesystem::path one_before(std::filesystem::path const& folder) {
  auto const id = checkpoint_id::parse(folder.filename().native());
  if (!id) return {};
  for (auto const& entry : list_checkpoints(files::parent_of(folder)))
    if (entry.id < *id && entry.valid()) return entry.folder;
  return {};
}

/// Collective over `world`: `folder`, which is the same on every rank, if no rank finds damage in
/// it; with `goes_back` else the newest sound one before it, which rank 0 chooses. Throws on every
/// rank, in the same words, when there is none.
template <class Comm, class Exchange>
[[nodiscard]] sound_checkpoint find_sound(Comm& world, Exchange& exchanges,
                                          std::filesystem::path folder, bool goes_back) {
  std::string damaged;
  while (true) {
    auto const problem = damage_found(world, exchanges, folder);
    if (problem.empty())
      return {folder,
              damaged.empty() ? damaged : concat(damaged, "; went back to ", folder.native())};
    damaged += concat(damaged.empty() ? "" : "; ", problem);
    std::filesystem::path next;
    if (goes_back && world.rank() == 0) next = one_before(folder);
    next = broadcast_text(world, exchanges, next.native());
    require(!next.empty(), damaged,
            goes_back ? concat("; no earlier checkpoint in ", files::parent_of(folder).native(),
                               " is sound; remove what is there to begin anew")
                      : std::string());
    folder = std::move(next);
  }
}

}  // namespace parallel::checkpoint
