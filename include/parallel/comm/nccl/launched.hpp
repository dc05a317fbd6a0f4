// nccl::launched_rank: the rank that a launcher gave this process, read from the environment.
//
// torchrun sets WORLD_SIZE, RANK, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. Open MPI's mpirun sets
// OMPI_COMM_WORLD_*. srun sets SLURM_NTASKS, SLURM_PROCID and SLURM_LOCALID, and only in job steps
// SLURM_STEP_ID. This header does not call NCCL.
#pragma once

#include <charconv>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace parallel::nccl {

struct launched_rank {
  std::string launcher_name;  ///< "torchrun", "mpirun" or "srun"
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  ///< among the ranks of this machine: selects the GPU
  /// The address at which rank 0 listens, if the launcher sets it.
  std::string address = {};
  int port = 0;
};

/// Reads this process's rank; std::nullopt if no launcher started the process.
/// `read_variable(name)` returns a variable's value or null, as std::getenv does. Throws `error`,
/// which names the variable that is missing or invalid.
[[nodiscard]] inline std::optional<launched_rank> read_launched_rank(
    std::function<char const*(char const*)> const& read_variable) {
  struct launcher_variables {
    char const* name;
    char const* ranks;
    char const* rank;
    char const* local_rank;
    char const* marker;  // a variable that exists only in processes of the launcher
  };
  constexpr launcher_variables launchers[] = {
      {"torchrun", "WORLD_SIZE", "RANK", "LOCAL_RANK", "RANK"},
      {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_RANK"},
      {"srun", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_ID"}};
  for (auto const& launcher : launchers) {
    // SLURM_NTASKS is set in batch scripts too, and a user may set WORLD_SIZE for another purpose
    if (read_variable(launcher.ranks) == nullptr || read_variable(launcher.marker) == nullptr)
      continue;
    auto const read_number = [&](char const* name, int lowest, int limit) {
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
    launched_rank launched{.launcher_name = launcher.name};
    launched.ranks = read_number(launcher.ranks, 1, 1 << 20);
    launched.rank = read_number(launcher.rank, 0, launched.ranks);
    launched.local_rank = read_number(launcher.local_rank, 0, launched.ranks);
    if (char const* const address = read_variable("MASTER_ADDR")) {
      launched.address = address;
      launched.port = read_number("MASTER_PORT", 1, 1 << 16);
    }
    return launched;
  }
  return std::nullopt;
}

}  // namespace parallel::nccl
