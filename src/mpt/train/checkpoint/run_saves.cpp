#include <mpt/train/checkpoint/run_saves.hpp>

namespace mpt::detail {

std::optional<checkpoint::local_folder> own_local_folder(checkpoint_config const& config,
                                                         run_hooks const& hooks,
                                                         parallel::any_communicator& comm) {
  auto const nodes = hooks.nodes.value_or(checkpoint::node_map(comm.size()));
  return local_folder_of(config, nodes, comm.rank(), hooks.on_local_save);
}

}  // namespace mpt::detail
