// assign: the blocks of a model that each stage of a pipeline holds.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

/// Blocks [begin, end) of the model. The first stage also has the part before the blocks (the
/// embedding), the last stage the part after them (norm, head and loss).
struct stage_blocks {
  int begin = 0;
  int end = 0;
  bool entry = false;
  bool exit = false;

  [[nodiscard]] constexpr int size() const { return end - begin; }
  friend constexpr bool operator==(stage_blocks const&, stage_blocks const&) = default;
};

/// The blocks of every stage, in the order of the model. Throws `error` when there are fewer blocks
/// than stages, or when the numbers in `by_stage` do not sum to `blocks`.
///
///     assign_blocks(one_f_one_b(3, 8), 11)                       →  [0, 4) [4, 8) [8, 11)
///     assign_blocks(one_f_one_b(3, 8), 11, std::array{3, 4, 4})  →  [0, 3) [3, 7) [7, 11)
///
/// - `s`: the schedule, which says how many stages there are
/// - `blocks`: the number of blocks of the model
/// - `by_stage`: the number of blocks of each stage; empty: blocks are divided evenly, and the
///   first stages hold one more where necessary
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR std::vector<stage_blocks> assign_blocks(
    schedule const& s, int blocks, std::span<int const> by_stage = {}) {
  int const stages = s.stages();
  require(blocks >= stages, s.name, ": ", s.ranks, " pipeline ranks with ", s.stages_per_rank,
          s.stages_per_rank == 1 ? " stage" : " stages", " each need at least ", stages,
          " blocks, but the model has ", blocks, "; it has enough for ", blocks / s.stages_per_rank,
          " ranks");
  require(by_stage.empty() || std::ssize(by_stage) == stages, s.name,
          ": the list of blocks by stage has ", by_stage.size(), " numbers, but there are ", stages,
          " stages, ", s.stages_per_rank, " on each of ", s.ranks, " ranks");
  std::vector<stage_blocks> out;
  int begin = 0;
  for (int stage = 0; stage < stages; ++stage) {
    int const count = by_stage.empty() ? blocks / stages + (stage < blocks % stages ? 1 : 0)
                                       : by_stage[static_cast<std::size_t>(stage)];
    require(count >= 1, s.name, ": the list of blocks by stage gives stage ", stage, ' ', count,
            " blocks; each needs one at least");
    out.push_back({begin, begin + count, stage == 0, stage == stages - 1});
    begin += count;
  }
  require(begin == blocks, s.name, ": the list of blocks by stage sums to ", begin,
          ", but the model has ", blocks, " blocks");
  return out;
}

}  // namespace parallel::pipeline
