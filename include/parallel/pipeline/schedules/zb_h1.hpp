// ZB-H1: 1F1B that delays weight gradients until the rank would be idle (Qi et al., "Zero Bubble
// Pipeline Parallelism", 2024, fig. 3).
//
// Bubble (p-1)(F+I-W), a third of 1F1B's when F, I and W take equal time; every rank keeps the
// activations of at most p microbatches.
#pragma once

#include <algorithm>

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

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
