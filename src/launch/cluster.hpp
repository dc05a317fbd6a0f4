// Finds out which rank this process is, if torchrun or srun started it as one of several.
#pragma once

#include <charconv>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>

#include <parallel/core/error.hpp>

#include <launch/processes.hpp>

namespace apps {

/// The number of tasks on node `node` by SLURM's list of tasks per node, such as "4(x2),3": four on
/// the first and the second node, three on the third. 1 if the list does not say.
[[nodiscard]] inline int tasks_on_node(std::string_view text, int node) {
  while (!text.empty()) {
    auto const comma = text.find(',');
    auto const part = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    int tasks = 1;
    int times = 1;
    auto const [end, problem] = std::from_chars(part.data(), part.data() + part.size(), tasks);
    auto const mark = part.find("(x");
    if (mark != std::string_view::npos)
      static_cast<void>(std::from_chars(part.data() + mark + 2, part.data() + part.size(), times));
    if (problem != std::errc() || tasks < 1) return 1;
    if (node < times) return tasks;
    node -= times;
  }
  return 1;
}

/// This process by the environment of torchrun or srun; `read_variable(name)` gives a variable's
/// value or null. None: this process was started alone, or by a batch script, which is not a task
/// of srun. Throws `error` for impossible numbers.
[[nodiscard]] inline std::optional<process> process_of_a_cluster(
    std::function<char const*(char const*)> const& read_variable) {
  auto const number = [&](char const* name, int otherwise) {
    char const* const text = read_variable(name);
    return text == nullptr ? otherwise : std::atoi(text);
  };
  process out;
  bool const is_torchrun = read_variable("RANK") != nullptr && number("WORLD_SIZE", 1) > 1;
  parallel::require(
      !is_torchrun ||
          (read_variable("LOCAL_RANK") != nullptr && read_variable("LOCAL_WORLD_SIZE") != nullptr),
      "the environment has RANK and WORLD_SIZE of several processes, but not LOCAL_RANK and "
      "LOCAL_WORLD_SIZE; start the processes by launch or torchrun, which set all four, or set "
      "these, too; where it is but one process, unset RANK and WORLD_SIZE");
  if (is_torchrun) {
    out = {.rank = number("RANK", 0),
           .ranks = number("WORLD_SIZE", 1),
           .local_rank = number("LOCAL_RANK", -1),
           .local_ranks = number("LOCAL_WORLD_SIZE", 0),
           .launcher = "torchrun or the like"};
  } else if (read_variable("SLURM_STEP_ID") != nullptr &&
             read_variable("SLURM_PROCID") != nullptr && number("SLURM_STEP_NUM_TASKS", 1) > 1) {
    char const* const tasks = read_variable("SLURM_STEP_TASKS_PER_NODE");
    out = {.rank = number("SLURM_PROCID", 0),
           .ranks = number("SLURM_STEP_NUM_TASKS", 1),
           .local_rank = number("SLURM_LOCALID", -1),
           .local_ranks = tasks_on_node(tasks == nullptr ? "" : tasks, number("SLURM_NODEID", 0)),
           .launcher = "srun"};
  } else {
    return std::nullopt;
  }
  parallel::require(0 <= out.rank && out.rank < out.ranks && 0 <= out.local_rank &&
                        out.local_rank < out.local_ranks && out.local_ranks <= out.ranks,
                    "the environment of ", out.launcher, " says rank ", out.rank, " of ", out.ranks,
                    ", which is ", out.local_rank, " of ", out.local_ranks,
                    " on this machine (LOCAL_RANK, LOCAL_WORLD_SIZE; SLURM_LOCALID, "
                    "SLURM_STEP_TASKS_PER_NODE); expected numbers below how many there are");
  return out;
}

}  // namespace apps
