// Who started this process: alone, or as one of several by a launcher that we do not follow, where
// each would do all of the work by itself.
#pragma once

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string_view>

#include <parallel/core/error.hpp>

#include "support/launch.hpp"

namespace apps {

/// What a launcher says of this process by its environment: how many there are.
struct foreign_launch {
  std::string_view variable;
  std::string_view launcher;
  int value = 1;      ///< of the variable
  int processes = 1;  ///< at least
};

/// The launcher whose variables say that this process is one of several; `look(name)` gives a
/// variable's value or null.
[[nodiscard]] inline std::optional<foreign_launch> launcher_named_by(
    std::function<char const*(char const*)> const& look) {
  struct known {
    char const* size;
    char const* rank;  // set in every process that is one of several
    std::string_view launcher;
  };
  constexpr std::array launchers{
      known{"WORLD_SIZE", "WORLD_SIZE", "torchrun, composer or the like"},
      known{"SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "srun"},
      known{"PMI_SIZE", "PMI_RANK", "an mpiexec of another MPI"},
      known{"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "mpirun of MVAPICH"},
      known{"FLUX_JOB_SIZE", "FLUX_TASK_RANK", "flux run"},
      known{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
            "mpirun, but this is built without MPI"}};
  for (auto const& [size, rank, launcher] : launchers) {
    char const* const text = look(size);
    if (text == nullptr || look(rank) == nullptr) continue;
    if (int const processes = std::atoi(text); processes > 1)
      return foreign_launch{size, launcher, processes, processes};
  }
  // PMIx alone does not say how many there are: whoever is not the first is one of several
  char const* const rank = look("PMIX_RANK");
  if (int const value = rank == nullptr ? 0 : std::atoi(rank); value > 0)
    return foreign_launch{"PMIX_RANK", "a launcher of PMIx", value, value + 1};
  return std::nullopt;
}

/// The launcher that started this process as one of several, if it is neither `launch` nor mpirun.
[[nodiscard]] inline std::optional<foreign_launch> started_by_another() {
  if (processes_started()) return std::nullopt;
  return launcher_named_by([](char const* name) { return std::getenv(name); });
}

/// Refuses to be one of several processes that would each run by themselves.
inline void require_own_launch() {
  auto const found = started_by_another();
  if (!found) return;
  parallel::fail("the environment says ", found->variable, "=", found->value, " (", found->launcher,
                 "): each of these processes would run on its own; start one with ",
                 "ranks=", found->processes, ", or all by launch -n ", found->processes,
                 " or mpirun -n ", found->processes, "; where it is but one, unset ",
                 found->variable);
}

/// Refuses to run several times at once: for programs that are one process.
inline void require_one_process() {
  int const started = processes_started().value_or(1);
  parallel::require(started == 1, launcher_name(), " started ", started,
                    " processes, and each would do all of the work; start this program without it");
  auto const found = started_by_another();
  parallel::require(!found, "the environment says ", found ? found->variable : "", "=",
                    found ? found->value : 0, " (", found ? found->launcher : "",
                    "): each of these processes would do all of the work; start one, and where it "
                    "is but one, unset ",
                    found ? found->variable : "");
}

}  // namespace apps
