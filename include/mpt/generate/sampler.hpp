// Samples the next token: greedy, temperature, top-k, top-p (nucleus; Holtzman et al., 2020).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt {

struct sampling_options {
  double temperature = 0.0;  // 0: greedy
  std::int64_t top_k = 0;    // keep the k most likely; 0: all
  double top_p = 1.0;        // keep the smallest set of at least this probability
  std::uint64_t seed = 17;
};

/// Picks tokens from logits. The random number of the n-th pick depends on the seed and n alone.
class sampler {
 public:
  explicit sampler(sampling_options options);

  /// The next token; of equal logits the lowest id wins. Cost: one sort of the vocabulary unless
  /// greedy.
  [[nodiscard]] std::int32_t pick(std::span<float const> logits);

 private:
  /// The ids of the top-k tokens, the largest logit first.
  [[nodiscard]] std::vector<std::int32_t> candidates(std::span<float const> logits) const;

  sampling_options options_;
  std::uint64_t pick_count_ = 0;
};

}  // namespace mpt
