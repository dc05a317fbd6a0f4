// Detects an unsupported launcher that started this process as one of several, where each process
// would do all of the work by itself.
#pragma once

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string_view>

#include <parallel/core/error.hpp>

#include <launch/launch.hpp>

namespace apps {

/// The variable by which a launcher tells a process that it is one of several.
struct foreign_launch {
  std::string_view variable;
  std::string_view launcher;
  int value = 1;      ///< the variable's value
  int processes = 1;  ///< the number of processes, or a lower bound of it
};

/// The launcher whose variables say that this process is one of several; `look(name)` gives a
/// variable's value or null.
[[nodiscard]] inline std::optional<foreign_launch> launcher_named_by(
    std::function<char const*(char const*)> const& read_variable) {
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
    char const* const text = read_variable(size);
    if (text == nullptr || read_variable(rank) == nullptr) continue;
    if (int const processes = std::atoi(text); processes > 1)
      return foreign_launch{size, launcher, processes, processes};
  }
  // PMIx does not tell the number of processes, but one that is not the first is one of several
  char const* const rank = read_variable("PMIX_RANK");
  if (int const value = rank == nullptr ? 0 : std::atoi(rank); value > 0)
    return foreign_launch{"PMIX_RANK", "a launcher of PMIx", value, value + 1};
  return std::nullopt;
}

/// The launcher that started this process as one of several, if it is neither `launch` nor mpirun.
[[nodiscard]] inline std::optional<foreign_launch> find_foreign_launch() {
  if (processes_started()) return std::nullopt;
  return launcher_named_by([](char const* name) { return std::getenv(name); });
}

/// Refuses to be one of several processes that would each run by themselves.
inline void require_own_launch() {
  auto const found = find_foreign_launch();
  if (!found) return;
  parallel::fail("the environment says ", found->variable, "=", found->value, " (", found->launcher,
                 "): each of these processes would run on its own; start one with ",
                 "ranks=", found->processes, ", or all by launch -n ", found->processes,
                 " or mpirun -n ", found->processes, "; where it is but one, unset ",
                 found->variable);
}

/// Refuses to be one of several processes; for programs that run as a single process.
inline void require_one_process() {
  int const started = processes_started().value_or(1);
  parallel::require(started == 1, launcher_name(), " started ", started,
                    " processes, and each would do all of the work; start this program without it");
  auto const found = find_foreign_launch();
  parallel::require(!found, "the environment says ", found ? found->variable : "", "=",
                    found ? found->value : 0, " (", found ? found->launcher : "",
                    "): each of these processes would do all of the work; start one, and where it "
                    "is but one, unset ",
                    found ? found->variable : "");
}

}  // namespace apps
