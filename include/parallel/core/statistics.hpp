// statistics: what the loss tokens of some microbatches add up to.
#pragma once

#include <cstdint>

#include <parallel/core/config.hpp>

namespace parallel {

/// Sums over the loss tokens of a step; never divided before all ranks' sums are added.
template <class Loss>
struct statistics {
  Loss loss = {};            // sum of token losses
  std::int64_t tokens = 0;   // tokens that have a label
  std::int64_t correct = 0;  // of these, where the most likely token is the label

  PARALLELLM_HOST_DEVICE statistics& operator+=(statistics const& other) {
    loss += other.loss;
    tokens += other.tokens;
    correct += other.correct;
    return *this;
  }
};

}  // namespace parallel
