// ZB-H1: 1F1B whose weight gradients wait until the rank would be idle (Qi et al., "Zero Bubble
// Pipeline Parallelism", 2024, fig. 3).
//
// Bubble (p-1)(F+I-W), a third of 1F1B's when all three take as long; every rank keeps the
// activations of p microbatches at most.
#pragma once

#include <algorithm>

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule zb_h1(int ranks, int microbatches) {
  return build({.name = "zb-h1", .ranks = ranks, .microbatches = microbatches},
               [=](rank_builder& rank, int r) {
                 int const ahead = std::min(ranks - 1 - r, microbatches);
                 rank.add(action_kind::forward, 0, ahead);
                 for (int i = 0; i < microbatches - ahead; ++i) {
                   rank.add(action_kind::forward);
                   rank.add(action_kind::backward_input);
                   if (i >= r) rank.add(action_kind::backward_weight);
                 }
                 for (int i = 0; i < ahead; ++i) {
                   rank.add(action_kind::backward_input);
                   rank.add(action_kind::backward_weight);
                 }
                 rank.finish(action_kind::backward_weight);
               });
}

}  // namespace parallel::pipeline
