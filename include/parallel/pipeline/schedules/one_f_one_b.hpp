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

}  // namespace parallel::pipeline
