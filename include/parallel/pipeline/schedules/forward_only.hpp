// Forward passes alone, for evaluation, on the stages of a training schedule.
//
// Loop: groups of p microbatches pass through chunk 0, then chunk 1, ..., as in interleaved. V:
// rank r computes p - r microbatches in the stages on the way down before it alternates with those
// on the way up. Any number of microbatches is supported. Time: mv + p - 1 forward passes of a
// stage (m a multiple of p, or v = 1), in a V 2(m + p - 1).
#pragma once

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule
forward_only(int ranks, int microbatches, int stages_per_rank = 1,
             placement stage_placement = placement::loop) {
  require(stage_placement == placement::loop || stages_per_rank == 2,
          "forward-only: a V has two stages a rank, not ", stages_per_rank);
  return build({.name = "forward-only",
                .ranks = ranks,
                .microbatches = microbatches,
                .stages_per_rank = stages_per_rank,
                .stage_placement = stage_placement,
                .forward_only = true},
               [=](rank_builder& rank, int r) {
                 using enum action_kind;
                 if (stage_placement == placement::loop) {
                   while (!rank.finished(forward, stages_per_rank - 1))
                     for (int chunk = 0; chunk < stages_per_rank; ++chunk)
                       rank.add(forward, chunk, ranks);
                   return;
                 }
                 rank.add(forward, 0, ranks - 1 - r);
                 while (!rank.finished(forward, 1)) {
                   rank.add(forward, 0);
                   rank.add(forward, 1);
                 }
               });
}

/// The forward passes of a schedule's stages, with the same placement.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule forward_only(schedule const& s,
                                                                int microbatches) {
  return forward_only(s.ranks, microbatches, s.stages_per_rank, s.stage_placement);
}

}  // namespace parallel::pipeline
