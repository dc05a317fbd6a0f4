// The result of an evaluation on unseen tokens.
#pragma once

#include <cmath>
#include <cstdint>

namespace mpt {

/// Means over all labelled tokens, in nats.
struct evaluation_result {
  std::int64_t tokens = 0;  ///< with a label
  double cross_entropy = 0;
  double token_accuracy = 0;
  double unigram_cross_entropy = 0;

  [[nodiscard]] double perplexity() const { return std::exp(cross_entropy); }
};

}  // namespace mpt
