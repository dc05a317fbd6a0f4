// Processes that torchrun or srun has started as ranks: which of them this one is.
#pragma once

#include <charconv>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <parallel/core/error.hpp>

#include "support/processes.hpp"

namespace apps {

/// The number behind place `node` of SLURM's "4(x2),3": tasks on the first node, the second and the
/// third. 1 where it is not told.
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

/// `look(name)` gives a variable's value or null. None: this process was started alone, or by a
/// batch script, which is no task of srun's. Throws `error` at numbers that cannot be.
[[nodiscard]] inline std::optional<process> process_of_a_cluster(
    std::function<char const*(char const*)> const& look) {
  auto const number = [&](char const* name, int otherwise) {
    char const* const text = look(name);
    return text == nullptr ? otherwise : std::atoi(text);
  };
  process out;
  bool const of_torch = look("RANK") != nullptr && number("WORLD_SIZE", 1) > 1;
  parallel::require(
      !of_torch || (look("LOCAL_RANK") != nullptr && look("LOCAL_WORLD_SIZE") != nullptr),
      "the environment has RANK and WORLD_SIZE of several processes, but not LOCAL_RANK and "
      "LOCAL_WORLD_SIZE; start the processes by launch or torchrun, which set all four, or set "
      "these, too; where it is but one process, unset RANK and WORLD_SIZE");
  if (of_torch) {
    out = {.rank = number("RANK", 0),
           .ranks = number("WORLD_SIZE", 1),
           .local_rank = number("LOCAL_RANK", -1),
           .local_ranks = number("LOCAL_WORLD_SIZE", 0),
           .by = "torchrun or the like"};
  } else if (look("SLURM_STEP_ID") != nullptr && look("SLURM_PROCID") != nullptr &&
             number("SLURM_STEP_NUM_TASKS", 1) > 1) {
    char const* const tasks = look("SLURM_STEP_TASKS_PER_NODE");
    out = {.rank = number("SLURM_PROCID", 0),
           .ranks = number("SLURM_STEP_NUM_TASKS", 1),
           .local_rank = number("SLURM_LOCALID", -1),
           .local_ranks = tasks_on_node(tasks == nullptr ? "" : tasks, number("SLURM_NODEID", 0)),
           .by = "srun"};
  } else {
    return std::nullopt;
  }
  parallel::require(0 <= out.rank && out.rank < out.ranks && 0 <= out.local_rank &&
                        out.local_rank < out.local_ranks && out.local_ranks <= out.ranks,
                    "the environment of ", out.by, " says rank ", out.rank, " of ", out.ranks,
                    ", which is ", out.local_rank, " of ", out.local_ranks,
                    " on this machine (LOCAL_RANK, LOCAL_WORLD_SIZE; SLURM_LOCALID, "
                    "SLURM_STEP_TASKS_PER_NODE); expected numbers below how many there are");
  return out;
}

}  // namespace apps
