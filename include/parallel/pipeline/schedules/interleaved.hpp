// Interleaved 1F1B: every rank holds v stages, p apart (Narayanan et al., Megatron-LM, 2021).
//
// Bubble (p-1)(F+B)/v; rank r keeps the activations of at most 2(p-1-r) + (v-1)p + 1 stages, each
// 1/v of a rank's; communication is v times that of 1F1B. m must be a multiple of p.
#pragma once

#include <algorithm>

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

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

}  // namespace parallel::pipeline
