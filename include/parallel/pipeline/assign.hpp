// assign: which blocks of a model each stage of a pipeline holds.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

/// Blocks [begin, end) of the model. The first stage has what comes before the blocks too (the
/// embedding), the last what comes after them (norm, head and loss).
struct stage_blocks {
  int begin = 0;
  int end = 0;
  bool entry = false;
  bool exit = false;

  [[nodiscard]] constexpr int size() const { return end - begin; }
  friend constexpr bool operator==(stage_blocks const&, stage_blocks const&) = default;
};

/// The blocks of every stage, in the order of the model. `by_stage` says how many each holds; when
/// it is empty they are divided evenly, the first stages holding one more where need be. Throws
/// `error` when there are fewer blocks than stages, or when `by_stage` is no division of them.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR std::vector<stage_blocks> assign_blocks(
    schedule const& of, int blocks, std::span<int const> by_stage = {}) {
  int const stages = of.stages();
  require(blocks >= stages, of.name, ": ", of.ranks, " pipeline ranks with ", of.stages_per_rank,
          of.stages_per_rank == 1 ? " stage" : " stages", " each need at least ", stages,
          " blocks, but the model has ", blocks, "; it has enough for ",
          blocks / of.stages_per_rank, " ranks");
  require(by_stage.empty() || std::ssize(by_stage) == stages, of.name,
          ": the list of blocks by stage has ", by_stage.size(), " numbers, but there are ", stages,
          " stages, ", of.stages_per_rank, " on each of ", of.ranks, " ranks");
  std::vector<stage_blocks> out;
  int begin = 0;
  for (int s = 0; s < stages; ++s) {
    int const count = by_stage.empty() ? blocks / stages + (s < blocks % stages ? 1 : 0)
                                       : by_stage[static_cast<std::size_t>(s)];
    require(count >= 1, of.name, ": the list of blocks by stage gives stage ", s, ' ', count,
            " blocks; each needs one at least");
    out.push_back({begin, begin + count, s == 0, s == stages - 1});
    begin += count;
  }
  require(begin == blocks, of.name, ": the list of blocks by stage sums to ", begin,
          ", but the model has ", blocks, " blocks");
  return out;
}

}  // namespace parallel::pipeline
