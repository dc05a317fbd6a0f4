// nccl::launched: this process's rank among those of a launcher, from the environment.
//
// torchrun sets WORLD_SIZE, RANK, LOCAL_RANK, MASTER_ADDR and MASTER_PORT; Open MPI's mpirun
// OMPI_COMM_WORLD_*; srun SLURM_NTASKS, SLURM_PROCID, SLURM_LOCALID and, in a step alone,
// SLURM_STEP_ID. Nothing here calls NCCL.
#pragma once

#include <charconv>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace parallel::nccl {

struct launched {
  std::string launcher_name;  // the launcher's name
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  // among the ranks of this machine: selects the GPU
  /// The address at which rank 0 listens, if the launcher sets it.
  std::string address = {};
  int port = 0;
};

/// `read_variable(name)` gives a variable's value or null, as std::getenv does. Returns nothing if
/// this process was started alone. Throws `error` naming the variable that is missing or invalid.
[[nodiscard]] inline std::optional<launched> launched_by(
    std::function<char const*(char const*)> const& read_variable) {
  struct launcher_variables {
    char const* name;
    char const* ranks;
    char const* rank;
    char const* local_rank;
    char const* is_task;  // set only in processes that the launcher started
  };
  constexpr launcher_variables launchers[] = {
      {"torchrun", "WORLD_SIZE", "RANK", "LOCAL_RANK", "RANK"},
      {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_RANK"},
      {"srun", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_ID"}};
  for (auto const& launcher : launchers) {
    // SLURM_NTASKS is set in batch scripts too, and WORLD_SIZE may be a program's own.
    if (read_variable(launcher.ranks) == nullptr || read_variable(launcher.is_task) == nullptr)
      continue;
    auto const number = [&](char const* name, int lowest, int limit) {
      char const* const text = read_variable(name);
      require(text != nullptr, launcher.name, " started this process with ", launcher.ranks,
              " but without ", name, "; set it, or start with another launcher");
      std::string_view const digits(text);
      int value = 0;
      auto const [end, problem] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value);
      require(problem == std::errc() && end == digits.data() + digits.size() && value >= lowest &&
                  value < limit,
              name, "=", digits, " (", launcher.name, "): expected a number from ", lowest, " to ",
              limit - 1);
      return value;
    };
    launched out{.launcher_name = launcher.name};
    out.ranks = number(launcher.ranks, 1, 1 << 20);
    out.rank = number(launcher.rank, 0, out.ranks);
    out.local_rank = number(launcher.local_rank, 0, out.ranks);
    if (char const* const address = read_variable("MASTER_ADDR")) {
      out.address = address;
      out.port = number("MASTER_PORT", 1, 1 << 16);
    }
    return out;
  }
  return std::nullopt;
}

}  // namespace parallel::nccl
