// promote_local: how a run continues from a checkpoint on its nodes' own disks: before anything is
// loaded, the nodes that are present assemble its files in the shared folder, where it is a
// checkpoint like any other from then on, for any number of ranks in any layout.
//
// The files are divided among all ranks of the nodes that have one of them (copy_shares). Each file
// is compared with its checksums while it is copied; a damaged one is copied from the other node
// that has it. So the files of a node that is gone, or has lost its disk, come from its neighbour.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <parallel/checkpoint/collective_read_errors.hpp>
#include <parallel/checkpoint/local/checked_copy.hpp>
#include <parallel/checkpoint/local/copy_shares.hpp>
#include <parallel/checkpoint/local/local_pointer.hpp>
#include <parallel/checkpoint/local/node_map.hpp>
#include <parallel/checkpoint/save.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/reduction.hpp>

namespace parallel::checkpoint {

namespace detail {

/// Collective: the text of the manifest that `pointer` names, from the first node whose `folder`
/// has it; "" where none has. `reads`: whether this rank reads its node's folder. `unreadable`:
/// receives the reason why this node's manifest cannot be read, if so.
template <class Comm, class Exchange>
[[nodiscard]] std::string local_manifest(Comm& world, Exchange& exchanges,
                                         std::filesystem::path const& folder, bool reads,
                                         local_pointer const& pointer, std::string& unreadable) {
  std::string text;
  if (reads) {
    try {
      text = read_manifest_text(folder);
    } catch (error const& problem) {  // another node may have it
      if (is_system_error(problem)) unreadable = problem.what();
    }
    if (checksum(text) != pointer.manifest) text.clear();
  }
  std::int64_t const none = world.size();
  std::int64_t first = text.empty() ? none : world.rank();
  world.all_reduce(exchanges, std::span<std::int64_t>(&first, 1), reduction::min).wait();
  if (first == none) return {};
  return broadcast_text(world, exchanges, std::move(text), static_cast<int>(first));
}

/// Collective: by node, which of `files` it has in its `folder` in full size. `unreadable`:
/// receives the reason why this node cannot tell for one of them, if so.
template <class Comm, class Exchange>
[[nodiscard]] std::vector<std::vector<bool>> files_on_nodes(
    Comm& world, Exchange& exchanges, std::filesystem::path const& folder, node_map const& nodes,
    std::map<std::string, std::uint64_t> const& files, std::string& unreadable) {
  std::string own_flags;
  for (auto const& [file, bytes] : files) {
    std::error_code missing;
    bool const whole = std::filesystem::file_size(folder / file, missing) == bytes;
    own_flags += whole && !missing ? '1' : '0';
    if (is_storage_error_code(missing.value()) || is_access_error_code(missing.value()))
      unreadable = concat((folder / file).native(), ": ", missing.message());
  }
  auto const by_rank =
      gather_texts(world, exchanges, nodes.is_first(world.rank()) ? own_flags : std::string());
  std::vector<std::vector<bool>> out;
  for (int node = 0; node < nodes.nodes(); ++node) {
    auto& has_file = out.emplace_back();
    for (char const flag : by_rank[static_cast<std::size_t>(nodes.ranks_of(node).front())])
      has_file.push_back(flag == '1');
  }
  return out;
}

/// The first names of a list: "a, b and 3 more".
[[nodiscard]] inline std::string first_few(std::vector<std::string> const& names) {
  std::string out;
  constexpr std::size_t max_names = 3;
  for (std::size_t i = 0; i < std::min(max_names, names.size()); ++i)
    out += concat(i == 0 ? "" : ", ", names[i]);
  return names.size() > max_names ? concat(out, " and ", names.size() - max_names, " more") : out;
}

/// The result of copying.
struct copied_files {
  std::vector<std::string> lost;  // files that no node has undamaged
  std::string damage;             // what is wrong with copies that were not used; or empty
  std::string unreadable;         // why this rank could not read some files of its node
  std::string failure;            // why the first rank that could not write the copies stopped
};

/// Collective: copies the files of `content` from the nodes' `folder` to `to`, which exists. It
/// stops where some files are lost, or cannot be written.
template <class Comm, class Exchange>
[[nodiscard]] copied_files copy_from_nodes(Comm& world, Exchange& exchanges,
                                           std::filesystem::path const& folder,
                                           std::filesystem::path const& to, node_map const& nodes,
                                           slice_set const& content, action_hook const& on_action) {
  std::vector<std::string> names;
  std::vector<std::uint64_t> bytes;
  std::vector<std::size_t> remaining;
  for (auto const& [file, size] : content.files) {
    remaining.push_back(names.size());
    names.push_back(file);
    bytes.push_back(size);
  }
  copied_files result;
  copy_shares shares(
      nodes, files_on_nodes(world, exchanges, folder, nodes, content.files, result.unreadable),
      bytes);
  auto const contents = contents_by_file(content);
  while (!remaining.empty()) {
    auto const copiers = shares.share_out(remaining);
    for (std::size_t i = 0; i < remaining.size(); ++i)
      if (!copiers[i]) result.lost.push_back(names[remaining[i]]);
    if (!result.lost.empty()) return result;
    std::string copied_flags, damage, failure;  // by file of `remaining`
    for (std::size_t i = 0; i < remaining.size(); ++i) {
      auto const file = remaining[i];
      bool is_whole = copiers[i] == world.rank();
      if (is_whole && failure.empty()) {
        files::announce(on_action, "create copied file");
        try {
          copy_checked(folder / names[file], to / names[file], contents.at(names[file]));
        } catch (unusable_source const& problem) {
          is_whole = false;
          if (dynamic_cast<unreadable_source const*>(&problem) != nullptr)
            result.unreadable = problem.what();
          damage += concat(damage.empty() ? "" : "; ", problem.what());
        } catch (error const& problem) {
          failure = problem.what();
        }
      }
      copied_flags += is_whole ? '1' : '0';
    }
    auto const flags_of_ranks = gather_texts(world, exchanges, copied_flags);
    for (auto const& text : gather_texts(world, exchanges, damage))
      if (!text.empty()) result.damage += concat("; ", text);
    for (auto const& text : gather_texts(world, exchanges, failure))
      if (result.failure.empty()) result.failure = text;
    if (!result.failure.empty()) return result;
    std::vector<std::size_t> to_retry;
    for (std::size_t i = 0; i < remaining.size(); ++i) {
      if (flags_of_ranks[static_cast<std::size_t>(*copiers[i])][i] == '1') continue;
      shares.mark_damaged(*copiers[i], remaining[i]);
      to_retry.push_back(remaining[i]);
    }
    remaining = std::move(to_retry);
  }
  return result;
}

/// Collective: throws storage_error on every rank where one could not read the checkpoint `name`,
/// which may be temporary; `root`: the folder whose pointer names the checkpoint.
template <class Comm, class Exchange>
void require_readable(Comm& world, Exchange& exchanges, std::string const& name,
                      std::filesystem::path const& root, std::string const& unreadable) {
  for (auto const& text : gather_texts(world, exchanges, unreadable))
    if (!text.empty())
      fail<storage_error>(
          name, " cannot be read: ", text, "; this may be temporary: start again, or remove ",
          (root / local_pointer_name).native(), " to go on from the latest of its folder");
}

}  // namespace detail

/// Collective over `world`: puts the local checkpoint that the folder `root` names into `root`, if
/// it is newer than the latest there and the present nodes together have all of it. `owner`: the
/// claim of `root` under which it is put there; `on_action` is called before each action on its
/// disk. Returns a message about it, the same on every rank; "" when there was nothing to do. A
/// checkpoint that is incomplete is skipped, which the message says; where the system does not
/// allow it to be read, or `root` to be written, storage_error or access_error on every rank. Cost:
/// its bytes are read, hashed and written once, by all ranks together.
template <class Comm, class Exchange>
[[nodiscard]] std::string promote_local(Comm& world, Exchange& exchanges,
                                        std::filesystem::path const& root, claim_id owner,
                                        local_folder const& local,
                                        action_hook const& on_action = {}) {
  std::string pointer_text, unreadable;
  std::optional<checkpoint_id> newest;  // in `root`
  detail::collective_read_errors reading;
  if (world.rank() == 0)
    reading.attempt([&] {
      if (auto const folder = latest(root).folder)
        newest = checkpoint_id::parse(folder->filename().native());
      if (auto const newer = newer_local_checkpoint(root))
        pointer_text = format_local_pointer(*newer);
    });
  auto const problem = reading.first_damage(world, exchanges);
  pointer_text = broadcast_text(world, exchanges, std::move(pointer_text));
  if (pointer_text.empty()) return problem;
  auto const pointer = parse_local_pointer(pointer_text, (root / local_pointer_name).native());
  auto const name = concat("the local checkpoint ", pointer.id.text());
  auto const folder = local.folder / pointer.id.text();
  auto const text = detail::local_manifest(world, exchanges, folder,
                                           local.nodes.is_first(world.rank()), pointer, unreadable);
  if (text.empty()) detail::require_readable(world, exchanges, name, root, unreadable);
  if (text.empty()) return concat(name, " is lost: no node of this run has its manifest");
  auto const content = parse_manifest(text, (folder / manifest_name).native());

  save_target const target{
      root, pointer.id,
      owner.generation > 0 ? owner.token : static_cast<std::uint64_t>(pointer.id.batch),
      owner.generation};
  if (world.rank() == 0) prepare_save(target, on_action);
  world.barrier(exchanges).wait();
  auto const copied = detail::copy_from_nodes(world, exchanges, folder, target.temporary(),
                                              local.nodes, content.slices, on_action);
  if (world.rank() == 0) {
    if (!copied.lost.empty() || !copied.failure.empty()) {
      abandon_save(target);
    } else {
      commit(target, {concat("{\n", format_slices(content.slices, name), "}\n")},
             content.state.dump(), {.on_action = on_action});
      if (newest > pointer.id)  // of another run, over which this run began anew
        remove_after(root, pointer.id, on_action);
    }
  }
  world.barrier(exchanges).wait();
  if (!copied.failure.empty())
    fail<storage_error>(name, " could not be copied into the shared folder: ", copied.failure);
  if (!copied.lost.empty())
    detail::require_readable(world, exchanges, name, root, copied.unreadable);
  if (copied.lost.empty())
    return concat("took ", name, " from ", local.nodes.nodes(),
                  local.nodes.nodes() == 1 ? " node" : " nodes", copied.damage);
  return concat(name, " is lost: no node of this run has an intact copy of ",
                detail::first_few(copied.lost), copied.damage);
}

}  // namespace parallel::checkpoint
