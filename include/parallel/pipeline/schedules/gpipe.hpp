// GPipe: all forward passes, then all backward passes (Huang et al., 2019).
//
// Bubble (p-1)(F+B); a rank keeps the activations of all m microbatches.
#pragma once

#include <parallel/core/config.hpp>
#include <parallel/pipeline/schedule.hpp>

namespace parallel::pipeline {

[[nodiscard]] PARALLELLM_VECTOR_CONSTEXPR schedule gpipe(int ranks, int microbatches) {
  return build({.name = "gpipe", .ranks = ranks, .microbatches = microbatches},
               [](rank_builder& rank, int) {
                 rank.finish(action_kind::forward);
                 rank.finish(action_kind::backward);
               });
}

}  // namespace parallel::pipeline
