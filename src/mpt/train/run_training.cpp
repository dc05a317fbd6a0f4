#include <mpt/train/run_training.hpp>

#include <string>

namespace mpt {

std::optional<parallel::checkpoint::local_folder> local_folder_of(
    checkpoint_config const& config, parallel::checkpoint::node_map const& nodes, int rank,
    parallel::action_hook on_action) {
  if (config.local_save_folder.empty()) return std::nullopt;
  auto const node = std::to_string(nodes.node_of(rank));
  return parallel::checkpoint::local_folder{fill_in(config.local_save_folder, node_rank_mark, node),
                                            nodes, std::move(on_action)};
}

}  // namespace mpt
