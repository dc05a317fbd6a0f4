// nccl::launched: which of a launcher's processes this one is, from the environment.
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
  std::string by;  // the launcher's name
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  // of those of this machine: its GPU
  /// Where rank 0 listens, if the launcher says so.
  std::string address = {};
  int port = 0;
};

/// `look(name)` gives a variable's value or null, as std::getenv does. None: this process was
/// started alone. Throws `error` naming the variable that is missing, or is no such number.
[[nodiscard]] inline std::optional<launched> launched_by(
    std::function<char const*(char const*)> const& look) {
  struct launcher {
    char const* name;
    char const* ranks;
    char const* rank;
    char const* local_rank;
    char const* is_task;  // what only processes have that it started
  };
  constexpr launcher known[] = {
      {"torchrun", "WORLD_SIZE", "RANK", "LOCAL_RANK", "RANK"},
      {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_RANK"},
      {"srun", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_ID"}};
  for (auto const& one : known) {
    // a batch script has a number among SLURM_NTASKS too; WORLD_SIZE alone is a program's own
    if (look(one.ranks) == nullptr || look(one.is_task) == nullptr) continue;
    auto const number = [&](char const* name, int least, int beyond) {
      char const* const text = look(name);
      require(text != nullptr, one.name, " started this process with ", one.ranks, " but without ",
              name, "; set it, or start with another launcher");
      std::string_view const digits(text);
      int value = 0;
      auto const [end, problem] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value);
      require(problem == std::errc() && end == digits.data() + digits.size() && value >= least &&
                  value < beyond,
              name, "=", digits, " (", one.name, "): expected a number from ", least, " to ",
              beyond - 1);
      return value;
    };
    launched out{.by = one.name};
    out.ranks = number(one.ranks, 1, 1 << 20);
    out.rank = number(one.rank, 0, out.ranks);
    out.local_rank = number(one.local_rank, 0, out.ranks);
    if (char const* const address = look("MASTER_ADDR")) {
      out.address = address;
      out.port = number("MASTER_PORT", 1, 1 << 16);
    }
    return out;
  }
  return std::nullopt;
}

}  // namespace parallel::nccl
