// The folder that a run saves into, for this run alone.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>

#include <mpt/config/train.hpp>
#include <mpt/train/metrics.hpp>
#include <mpt/train/run_training.hpp>
#include <parallel/checkpoint/folder_claim.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/device/host/stream.hpp>

#include "support/launch.hpp"

namespace apps {

/// Checks that what the run writes can be written, and claims its folder of checkpoints, if it has
/// one, for this run alone, which `hooks` then hold it to. Collective. While rank 0 waits to see
/// whether the last one that wrote there still lives, the others hear of it in time.
[[nodiscard]] inline std::unique_ptr<parallel::checkpoint::folder_claim> claim_save_folder(
    mpt::train_config const& config, parallel::any_communicator& comm, mpt::run_hooks& hooks) {
  using parallel::checkpoint::folder_claim;
  auto const& folder = config.checkpoint.save_folder;
  std::future<std::unique_ptr<folder_claim>> claimed;
  if (comm.rank() == 0)
    claimed = std::async(std::launch::async, [&]() -> std::unique_ptr<folder_claim> {
      static_cast<void>(mpt::metrics_file(config.logging.metrics_file));
      if (folder.empty()) return nullptr;
      return std::make_unique<folder_claim>(
          folder, parallel::checkpoint::claim_options{.series = series_of_starts()});
    });
  parallel::host::stream exchanges;
  std::unique_ptr<folder_claim> claim;
  std::string problem;
  for (bool waiting = true; waiting;) {
    if (comm.rank() == 0 && claimed.wait_for(std::chrono::seconds(1)) == std::future_status::ready)
      try {
        waiting = false;
        claim = claimed.get();
        if (claim) hooks.owner = claim->id();
      } catch (parallel::error const& refused) {
        problem = refused.what();
      }
    std::array<std::uint64_t, 3> said{
        waiting ? 1U : 0U, static_cast<std::uint64_t>(hooks.owner.generation), hooks.owner.token};
    comm.broadcast(exchanges, std::span<std::uint64_t>(said), 0).wait();
    waiting = said[0] != 0;
    hooks.owner = {static_cast<parallel::index>(said[1]), said[2]};
  }
  problem = parallel::broadcast_text(comm, exchanges, problem);
  if (!problem.empty()) throw refusal(problem);
  if (!claim) return claim;
  hooks.on_save = claim->guard(hooks.on_save);
  hooks.stop_asked = [&own = *claim, asked = hooks.stop_asked] {
    own.require_recent();
    return asked();
  };
  return claim;
}

}  // namespace apps
