// Forward passes alone: evaluation, on the stages where a training schedule has put them.
//
// Loop: groups of p microbatches go through chunk 0, then chunk 1, ..., as interleaved trains. V:
// rank r is p - r microbatches ahead in the stages down before it goes on with those up. No number
// of microbatches is refused. Time: mv + p - 1 forward passes of a stage (m a multiple of p, or v =
// 1), in a V 2(m + p - 1).
#pragma once

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule forward_only(int ranks, int microbatches,
                                                                int stages_per_rank = 1,
                                                                placement place = placement::loop) {
  require(place == placement::loop || stages_per_rank == 2,
          "forward-only: a V has two stages a rank, not ", stages_per_rank);
  return build({.name = "forward-only",
                .ranks = ranks,
                .microbatches = microbatches,
                .stages_per_rank = stages_per_rank,
                .place = place,
                .forward_only = true},
               [=](rank_builder& rank, int r) {
                 using enum action_kind;
                 if (place == placement::loop) {
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

/// The forward passes alone of a schedule's stages, where it has them.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule forward_only(schedule const& of,
                                                                int microbatches) {
  return forward_only(of.ranks, microbatches, of.stages_per_rank, of.place);
}

}  // namespace parallel::pipeline
