// local_cluster: four ranks on nodes with their own disks that train the ring model and save there.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/checkpoint/local_saver.hpp>
#include <parallel/checkpoint/promote_local.hpp>

#include "parallel/support/files.hpp"
#include "support/ring/ring_run.hpp"

namespace test {

/// A folder for each node, with the node's name, and the folder "shared".
struct local_cluster {
  layout run_layout{.ranks = 2, .level = zero::level::parameters, .microbatch = 3, .replicas = 2};
  std::vector<std::string> by_rank{"a", "a", "b", "b"};  // node names
  temporary_folder own_folder;
  std::filesystem::path folder = own_folder.path();
  parallel::action_hook on_action = {};
  /// Replaces on_action on the disks of the nodes; empty: on_action is called there.
  std::function<void(int rank, std::string_view action)> on_node = {};

  [[nodiscard]] std::filesystem::path shared() const { return folder / "shared"; }
  [[nodiscard]] parallel::checkpoint::save_options options() const {
    return {.on_action = on_action};
  }
  [[nodiscard]] parallel::checkpoint::local_folder local(int rank) const {
    parallel::action_hook hook = on_action;
    if (on_node) hook = [this, rank](std::string_view action) { on_node(rank, action); };
    return {folder / by_rank[static_cast<std::size_t>(rank)],
            parallel::checkpoint::node_map(by_rank), hook};
  }

  /// Calls f(rank, saver of the shared folder, saver of the node's folder) on every rank.
  template <class F>
  void run(bool in_background, F const& f) const {
    namespace pc = parallel::checkpoint;
    parallel::threads::run(
        static_cast<int>(by_rank.size()), [&](parallel::threads::communicator& comm) {
          ring_rank<> ring(parallel::any_communicator(std::move(comm)), run_layout);
          pc::stepper_saver shared_saver(ring.stepper(), ring.world(), ring.exchanges(), shared(),
                                         in_background, options());
          pc::local_saver saver(shared_saver, ring.stepper(), ring.world(), ring.exchanges(),
                                local(ring.rank()));
          f(ring, shared_saver, saver);
        });
  }
};

inline parallel::checkpoint::run_state state_after(index batches) { return {.batches = batches}; }

/// The content of all files of a checkpoint except its manifest.
inline std::map<std::string, std::string> files_of(std::filesystem::path const& folder) {
  std::map<std::string, std::string> out;
  for (auto const& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename() != parallel::checkpoint::manifest_name)
      out[entry.path().filename()] = read_all(entry.path());
  return out;
}

/// The name of the checkpoint to which the pointer in the shared folder points, after the ranks
/// have promoted it; "" if it is lost.
inline std::string promoted(local_cluster const& cluster) {
  namespace pc = parallel::checkpoint;
  parallel::threads::run(
      static_cast<int>(cluster.by_rank.size()), [&](parallel::threads::communicator& comm) {
        parallel::host::stream exchanges;
        (void)pc::promote_local(comm, exchanges, cluster.shared(), {}, cluster.local(comm.rank()));
      });
  auto const found = pc::latest(cluster.shared()).folder;
  if (!found) return {};
  pc::checkpoint_reader(*found).verify();
  return found->filename();
}

}  // namespace test
