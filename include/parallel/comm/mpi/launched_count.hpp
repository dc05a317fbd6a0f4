// The number of processes that a launcher says it started, whatever MPI reports.
#pragma once

#include <array>
#include <cstdlib>
#include <functional>
#include <string_view>

#include <parallel/core/config.hpp>

namespace parallel::mpi {

/// The number of processes that were started together, from the launcher's environment variables.
struct launched_count {
  std::string_view variable = {};  ///< the variable with the number; empty: none
  int processes = 1;
};

/// `read_variable(name)` gives a variable's value or null. The largest number counts.
[[nodiscard]] inline launched_count count_launched(
    std::function<char const*(char const*)> const& read_variable) {
  launched_count out;
  constexpr std::array sizes{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};
  auto const keep_larger = [&](char const* name) {
    char const* const text = read_variable(name);
    int const processes = text == nullptr ? 1 : std::atoi(text);
    if (processes > out.processes) out = {name, processes};
  };
  for (char const* const name : sizes) keep_larger(name);
  // SLURM sets task counts in batch scripts too; only in a step of srun are the tasks processes.
  if (read_variable("SLURM_STEP_ID") != nullptr) keep_larger("SLURM_STEP_NUM_TASKS");
  return out;
}

}  // namespace parallel::mpi
