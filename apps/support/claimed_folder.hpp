// The folders that a run saves into, for this run alone.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <span>
#include <string>

#include <mpt/config/train.hpp>
#include <mpt/train/metrics.hpp>
#include <mpt/train/run_training.hpp>
#include <parallel/checkpoint/folder_claim.hpp>
#include <parallel/checkpoint/node_map.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/reduction.hpp>
#include <parallel/device/host/stream.hpp>

#include "support/launch.hpp"

namespace apps {

/// What a rank has claimed, for as long as it lives.
struct folder_claims {
  std::unique_ptr<parallel::checkpoint::folder_claim> shared;  // rank 0's: save_folder
  std::unique_ptr<parallel::checkpoint::folder_claim> local;   // of each node's first rank
};

/// Fails unless files can be made in `folder`, which is made too.
inline void require_writable(std::filesystem::path const& folder) {
  parallel::files::make_folders(folder);
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    parallel::files::failure(folder, "cannot write into this folder");
}

/// Checks that what the run writes can be written, and claims its folders of checkpoints, if it has
/// such, for this run alone, which `hooks` then hold it to. Collective. While a rank waits to see
/// whether the last one that wrote there still lives, the others hear of it in time.
[[nodiscard]] inline folder_claims claim_save_folders(mpt::train_config const& config,
                                                      parallel::any_communicator& comm,
                                                      mpt::run_hooks& hooks) {
  using parallel::checkpoint::folder_claim;
  auto const& saves = config.checkpoint;
  parallel::host::stream exchanges;
  hooks.nodes.emplace(parallel::gather_texts(comm, exchanges, node_name()));
  auto claimed = std::async(std::launch::async, [&, rank = comm.rank()] {
    auto const claim = [](std::string const& folder) {
      return std::make_unique<folder_claim>(
          folder, parallel::checkpoint::claim_options{.series = series_of_starts()});
    };
    folder_claims out;
    if (rank == 0) {
      static_cast<void>(mpt::metrics_file(config.logging.metrics_file));
      if (auto const& exports = config.callbacks.hf_checkpointer)
        require_writable(exports->save_folder);
      if (!saves.save_folder.empty()) out.shared = claim(saves.save_folder);
    }
    auto const here = mpt::local_folder_of(saves, *hooks.nodes, rank);
    if (here && hooks.nodes->is_first(rank)) out.local = claim(here->folder.string());
    return out;
  });
  for (std::int64_t waiting = 1; waiting != 0;) {
    waiting = claimed.wait_for(std::chrono::seconds(1)) == std::future_status::ready ? 0 : 1;
    comm.all_reduce(exchanges, std::span(&waiting, 1), parallel::reduction::max).wait();
  }
  folder_claims claims;
  std::string problem, of_storage;
  try {
    claims = claimed.get();
  } catch (parallel::storage_error const& failed) {
    of_storage = failed.what();
  } catch (parallel::error const& refused) {
    problem = refused.what();
  }
  for (auto const& text : parallel::gather_texts(comm, exchanges, of_storage))
    if (!text.empty()) throw parallel::storage_error(text);
  for (auto const& text : parallel::gather_texts(comm, exchanges, problem))
    if (!text.empty()) throw refusal(text);
  if (claims.shared) hooks.owner = claims.shared->id();
  std::array<std::uint64_t, 2> owner{static_cast<std::uint64_t>(hooks.owner.generation),
                                     hooks.owner.token};
  comm.broadcast(exchanges, std::span<std::uint64_t>(owner), 0).wait();
  hooks.owner = {static_cast<parallel::index>(owner[0]), owner[1]};
  if (claims.local) hooks.on_local_save = claims.local->guard(hooks.on_save);
  if (!claims.shared) return claims;
  hooks.on_save = claims.shared->guard(hooks.on_save);
  hooks.stop_asked = [&own = *claims.shared, asked = hooks.stop_asked] {
    own.require_recent();
    return asked();
  };
  return claims;
}

}  // namespace apps
