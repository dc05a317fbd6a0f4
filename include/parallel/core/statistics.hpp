// statistics: sums over the loss tokens of microbatches.
#pragma once

#include <cstdint>

#include <parallel/core/config.hpp>

namespace parallel {

/// Sums over the loss tokens of a step. They are divided only after the sums of all ranks are
/// added.
template <class Loss>
struct statistics {
  Loss loss = {};            ///< sum of token losses
  std::int64_t tokens = 0;   ///< tokens that have a label
  std::int64_t correct = 0;  ///< tokens whose most likely prediction is the label

  PARALLELLM_HOST_DEVICE statistics& operator+=(statistics const& other) {
    loss += other.loss;
    tokens += other.tokens;
    correct += other.correct;
    return *this;
  }
  /// The mean loss of the tokens that have a label; NaN if there is none.
  [[nodiscard]] double mean_loss() const {
    return static_cast<double>(loss) / static_cast<double>(tokens);
  }
};

}  // namespace parallel
