// How many processes a launcher says that it started, whatever MPI makes of them.
#pragma once

#include <array>
#include <cstdlib>
#include <functional>
#include <string_view>

#include <parallel/core/config.hpp>

namespace parallel::mpi {

/// What the environment says of this process and those that were started with it.
struct launched_count {
  std::string_view variable = {};  ///< that says so; empty: none does
  int processes = 1;
};

/// `look(name)` gives a variable's value or null. The largest number counts.
[[nodiscard]] inline launched_count count_launched(
    std::function<char const*(char const*)> const& look) {
  launched_count out;
  constexpr std::array sizes{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};
  auto const take = [&](char const* name) {
    char const* const text = look(name);
    int const processes = text == nullptr ? 1 : std::atoi(text);
    if (processes > out.processes) out = {name, processes};
  };
  for (char const* const name : sizes) take(name);
  // in a batch script, too, SLURM tells of tasks; only within a step of srun are they processes
  if (look("SLURM_STEP_ID") != nullptr) take("SLURM_STEP_NUM_TASKS");
  return out;
}

}  // namespace parallel::mpi
