// DualPipeV: the placement of ZB-V, with forward and backward passes of the two directions side by
// side, so that each hides the other's communication (DeepSeek-AI, 2025: DualPipe, cut in half).
//
// A rank keeps the activations of at most 2p + 1 stages. It needs at least 2p microbatches.
#pragma once

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule dual_pipe_v(int ranks, int microbatches) {
  require(microbatches >= 2 * ranks, "dual-pipe-v: needs at least ", 2 * ranks,
          " microbatches, two for each of the ", ranks, " pipeline ranks, but there are ",
          microbatches);
  return build({.name = "dual-pipe-v",
                .ranks = ranks,
                .microbatches = microbatches,
                .stages_per_rank = 2,
                .stage_placement = placement::v},
               [=](rank_builder& rank, int r) {
                 using enum action_kind;
                 std::vector<int> pending_chunks;  // whose weight gradients wait, oldest first
                 std::size_t completed = 0;
                 auto const split_backward = [&](int chunk) {
                   rank.add(backward_input, chunk);
                   pending_chunks.push_back(chunk);
                 };
                 auto const add_weight = [&] {
                   rank.add(backward_weight, pending_chunks[completed++]);
                 };
                 int const ranks_after = ranks - 1 - r;

                 rank.add(forward, 0, 2 * ranks_after);
                 for (int i = 0; i < r + 1; ++i) {
                   rank.add(forward, 0);
                   rank.add(forward, 1);
                 }
                 for (int i = 0; i < ranks_after; ++i) {
                   split_backward(1);
                   add_weight();
                   rank.add(forward, 1);
                 }
                 for (int i = 0; i < microbatches - 2 * ranks + r + 1; ++i) {
                   rank.add(forward, 0);
                   rank.add(backward, 1);
                   rank.add(forward, 1);
                   rank.add(backward, 0);
                 }
                 for (int i = 0; i < ranks_after; ++i) {
                   rank.add(backward, 1);
                   rank.add(forward, 1);
                   rank.add(backward, 0);
                 }
                 // the second half of the last 2(r+1) backward passes is split
                 for (int i = 0; i < 2 * (r + 1); ++i) {
                   int const chunk = 1 - i % 2;
                   if (i < r + 1)
                     rank.add(backward, chunk);
                   else
                     split_backward(chunk);
                 }
                 for (int i = 0; i < ranks_after; ++i) {
                   add_weight();
                   split_backward(0);
                 }
                 while (completed < pending_chunks.size()) add_weight();
               });
}

}  // namespace parallel::pipeline
