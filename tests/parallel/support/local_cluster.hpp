// Four ranks that train the ring on nodes with disks of their own, and save there.
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
#include "support/ring_run.hpp"

namespace test {

/// A folder for each node, by its name, and "shared".
struct local_cluster {
  layout how{.ranks = 2, .level = zero::level::parameters, .microbatch = 3, .replicas = 2};
  std::vector<std::string> by_rank{"a", "a", "b", "b"};  // node names
  temporary_folder own;
  std::filesystem::path folder = own.path();
  parallel::action_hook on_action = {};
  std::function<void(int rank, std::string_view step)> on_node = {};  // else on_action, too

  [[nodiscard]] std::filesystem::path shared() const { return folder / "shared"; }
  [[nodiscard]] parallel::checkpoint::save_options options() const {
    return {.on_action = on_action};
  }
  [[nodiscard]] parallel::checkpoint::local_folder local(int rank) const {
    parallel::action_hook hook = on_action;
    if (on_node) hook = [this, rank](std::string_view step) { on_node(rank, step); };
    return {folder / by_rank[static_cast<std::size_t>(rank)],
            parallel::checkpoint::node_map(by_rank), hook};
  }

  /// Calls f(rank, its saver of the shared folder, its local one) on every rank.
  template <class F>
  void run(bool behind, F const& f) const {
    namespace pc = parallel::checkpoint;
    parallel::threads::run(
        static_cast<int>(by_rank.size()), [&](parallel::threads::communicator& comm) {
          ring_rank<> one(parallel::any_communicator(std::move(comm)), how);
          pc::stepper_saver shared_saver(one.stepper(), one.world(), one.exchanges(), shared(),
                                         behind, options());
          pc::local_saver saver(shared_saver, one.stepper(), one.world(), one.exchanges(),
                                local(one.rank()));
          f(one, shared_saver, saver);
        });
  }
};

inline parallel::checkpoint::run_state state_after(index batches) { return {.batches = batches}; }

/// The content of all files of a checkpoint but its manifest.
inline std::map<std::string, std::string> files_of(std::filesystem::path const& folder) {
  std::map<std::string, std::string> out;
  for (auto const& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename() != parallel::checkpoint::manifest_name)
      out[entry.path().filename()] = read_all(entry.path());
  return out;
}

/// What the pointer in the shared folder names, when ranks have put it there; "" when it is lost.
inline std::string promoted(local_cluster const& all) {
  namespace pc = parallel::checkpoint;
  parallel::threads::run(
      static_cast<int>(all.by_rank.size()), [&](parallel::threads::communicator& comm) {
        parallel::host::stream exchanges;
        (void)pc::promote_local(comm, exchanges, all.shared(), {}, all.local(comm.rank()));
      });
  auto const found = pc::latest(all.shared()).folder;
  if (!found) return {};
  pc::checkpoint_reader(*found).verify();
  return found->filename();
}

}  // namespace test
