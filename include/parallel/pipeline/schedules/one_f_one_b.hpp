// 1F1B: after its warm-up every rank alternates one forward and one backward pass (Narayanan et
// al., PipeDream-Flush, 2021).
//
// It has the bubble of GPipe, (p-1)(F+B), but rank r keeps the activations of min(p-r, m)
// microbatches.
#pragma once

#include <algorithm>

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule one_f_one_b(int ranks, int microbatches) {
  return build({.name = "1f1b", .ranks = ranks, .microbatches = microbatches},
               [=](rank_builder& rank, int r) {
                 rank.add(action_kind::forward, 0, std::min(ranks - 1 - r, microbatches));
                 while (!rank.finished(action_kind::forward)) {
                   rank.add(action_kind::forward);
                   rank.add(action_kind::backward);
                 }
                 rank.finish(action_kind::backward);
               });
}

/// Interleaved 1F1B: every rank holds v stages, p apart (Narayanan et al., Megatron-LM, 2021).
///
/// Bubble (p-1)(F+B)/v; rank r keeps the activations of at most 2(p-1-r) + (v-1)p + 1 stages, each
/// 1/v of a rank's; communication is v times that of 1F1B. m must be a multiple of p.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule interleaved(int ranks, int microbatches,
                                                               int stages_per_rank) {
  require(ranks < 1 || microbatches % ranks == 0,
          "interleaved: the number of microbatches must be a multiple of the ", ranks,
          " pipeline ranks, but is ", microbatches, "; the nearest above is ",
          ranks < 1 ? 0 : (microbatches / ranks + 1) * ranks);
  return build({.name = "interleaved",
                .ranks = ranks,
                .microbatches = microbatches,
                .stages_per_rank = stages_per_rank},
               [=](rank_builder& rank, int r) {
                 // Pass k: p microbatches through chunk 0, the same through chunk 1, ...
                 auto const chunk_of = [=](int k) { return k / ranks % stages_per_rank; };
                 int const passes = microbatches * stages_per_rank;
                 int const warm_up =
                     std::min(passes, 2 * (ranks - 1 - r) + (stages_per_rank - 1) * ranks);
                 for (int k = 0; k < warm_up; ++k) rank.add(action_kind::forward, chunk_of(k));
                 for (int k = 0; k < passes; ++k) {
                   if (warm_up + k < passes) rank.add(action_kind::forward, chunk_of(warm_up + k));
                   rank.add(action_kind::backward, stages_per_rank - 1 - chunk_of(k));
                 }
               });
}

/// GPipe: all forward passes, then all backward passes (Huang et al., 2019).
///
/// Bubble (p-1)(F+B); a rank keeps the activations of all m microbatches.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule gpipe(int ranks, int microbatches) {
  return build({.name = "gpipe", .ranks = ranks, .microbatches = microbatches},
               [](rank_builder& rank, int) {
                 rank.finish(action_kind::forward);
                 rank.finish(action_kind::backward);
               });
}

/// ZB-H1: 1F1B that delays weight gradients until the rank would be idle (Qi et al., "Zero Bubble
/// Pipeline Parallelism", 2024, fig. 3).
///
/// Bubble (p-1)(F+I-W), a third of 1F1B's when F, I and W take equal time; every rank keeps the
/// activations of at most p microbatches.
[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule zb_h1(int ranks, int microbatches) {
  return build({.name = "zb-h1", .ranks = ranks, .microbatches = microbatches},
               [=](rank_builder& rank, int r) {
                 int const warm_up = std::min(ranks - 1 - r, microbatches);
                 rank.add(action_kind::forward, 0, warm_up);
                 for (int i = 0; i < microbatches - warm_up; ++i) {
                   rank.add(action_kind::forward);
                   rank.add(action_kind::backward_input);
                   if (i >= r) rank.add(action_kind::backward_weight);
                 }
                 for (int i = 0; i < warm_up; ++i) {
                   rank.add(action_kind::backward_input);
                   rank.add(action_kind::backward_weight);
                 }
                 rank.finish(action_kind::backward_weight);
               });
}

}  // namespace parallel::pipeline
