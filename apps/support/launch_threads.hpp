// Ranks as threads of this process.
#pragma once

#include <chrono>

#include <parallel/comm/checked.hpp>
#include <parallel/comm/threads/run.hpp>

#include "support/cores.hpp"
#include "support/launch.hpp"

namespace apps {

inline void launch_threads(
    launch_options const& options,
    std::function<void(parallel::any_communicator&, place const&)> const& program) {
  auto const cores = available_cores();
  int const ranks = options.ranks.value_or(1);
  auto const deadline = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(options.deadline));
  parallel::threads::run(ranks,
                         [&](parallel::threads::communicator& comm) {
                           int const rank = comm.rank();
                           parallel::any_communicator any(parallel::checked(std::move(comm)));
                           program(any, {cores_of_rank(cores, rank, ranks)});
                         },
                         {.deadline = deadline});
}

}  // namespace apps
