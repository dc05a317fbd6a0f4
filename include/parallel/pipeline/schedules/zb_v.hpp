// ZB-V: each rank has two stages. They are assigned to the ranks in rank order and then in reverse,
// so that rank 0 holds the first stage and the last (Qi et al., "Pipeline Parallelism with
// Controllable Memory", 2024).
//
// A rank has no bubble between its first and last action when forward, backward_input and
// backward_weight take equal time. Every rank keeps the activations of 2p stages, for p ranks: as
// much memory as p stages of 1F1B. ZB-V needs at least p microbatches.
#pragma once

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule zb_v(int ranks, int microbatches) {
  require(microbatches >= ranks, "zb-v: needs at least as many microbatches as the ", ranks,
          " pipeline ranks, but there are ", microbatches);
  return build({.name = "zb-v",
                .ranks = ranks,
                .microbatches = microbatches,
                .stages_per_rank = 2,
                .stage_placement = placement::v},
               [=](rank_builder& rank, int r) {
                 using enum action_kind;
                 auto const add_backward = [&](int chunk) {
                   rank.add(backward_input, chunk);
                   rank.add(backward_weight, chunk);
                 };
                 rank.add(forward, 0, 2 * (ranks - r) - 1);
                 for (int i = 0; i < r; ++i) {
                   rank.add(forward, 1);
                   rank.add(forward, 0);
                 }
                 for (int i = 0; i < ranks - r; ++i) {
                   rank.add(forward, 1);
                   add_backward(1);
                 }
                 while (!rank.finished(forward, 1)) {
                   rank.add(forward, 0);
                   add_backward(0);
                   rank.add(forward, 1);
                   add_backward(1);
                 }
                 for (int i = 0; i < r; ++i) {
                   rank.add(backward_input, 0);
                   rank.add(backward_input, 1);
                 }
                 for (int i = 0; i < ranks - r; ++i) add_backward(0);
                 rank.finish(backward_weight, 1);
                 rank.finish(backward_weight, 0);
               });
}

}  // namespace parallel::pipeline
