// Loads a run's starting checkpoint in any layout, and saves what the ranks then hold.
#pragma once

#include <utility>

#include <mpt/train/checkpoint/open_pretrained.hpp>
#include <mpt/train/checkpoint/run_checkpoint.hpp>
#include <mpt/train/setup/parameter_groups.hpp>
#include <mpt/train/setup/run_mesh.hpp>
#include <parallel/train/session.hpp>

#include "mpt/train/tiny_run.hpp"

namespace tiny_run {

/// Loads the checkpoint `from` on the ranks of `layout`, saves into `root` and returns the folder
/// of the new checkpoint.
template <class T>
fs::path load_and_save(train_config config, grid const& layout, mpt::found_checkpoint const& from,
                       fs::path const& root) {
  config = with_layout(std::move(config), layout);
  config.checkpoint.save_folder = root;
  fs::path out;
  parallel::threads::run(layout.ranks(), [&](parallel::threads::communicator& comm) {
    bool const first = comm.rank() == 0;
    parallel::any_communicator any(std::move(comm));
    parallel::host::device device;
    mpt::run_mesh mesh(config.execution, mpt::run_layout(config, any.size()), any, device);
    mpt::model<T> net(config.model, mesh.groups_of_model());
    parallel::train::session session(net, device, mesh.ranks(), groups_of(config.optimizer, net),
                                     {.level = mpt::level_of(config.execution),
                                      .pipeline = config.execution.parallelism.pipeline_options()});
    auto const state =
        mpt::load_run(session, config, mpt::agree_on_sound(any, session.exchanges(), from), {20},
                      mpt::open_pretrained);
    auto const folder = parallel::checkpoint::save(
        session.stepper(), any, session.exchanges(), root,
        mpt::saved_state(config, state, mpt::adapter_base_of(config.model, config.checkpoint)));
    if (first) out = folder;
  });
  return out;
}

}  // namespace tiny_run
