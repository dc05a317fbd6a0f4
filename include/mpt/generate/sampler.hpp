// Samples the next token: greedy, temperature, top-k, top-p (nucleus; Holtzman et al., 2020).
//
// Adjusts the logits of the next token by the tokens of the text so far: a penalty on repeated
// tokens (Keskar et al., "CTRL", 2019) and a ban on repeated n-grams, as in transformers'
// generate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mpt {

/// How the tokens of a text so far change the choice of the next.
struct history_options {
  double repetition_penalty = 1.0;        ///< above 1: tokens of the text become less likely
  std::int64_t no_repeat_ngram_size = 0;  ///< no n-gram of this length occurs twice; 0: no ban
};

/// The tokens of a text so far, prompt included.
class token_history {
 public:
  token_history(history_options options, std::span<std::int32_t const> prompt);

  void add(std::int32_t id) { ids_.push_back(id); }

  /// Changes the logits of the next token. The cost grows with the length of the text.
  void apply(std::span<float> logits) const;

 private:
  void penalise_repetitions(std::span<float> logits) const;

  /// Bans every token that would complete an n-gram that the text already holds.
  void ban_repeated_ngrams(std::span<float> logits) const;

  history_options options_;
  std::vector<std::int32_t> ids_;
};

/// How the next token is chosen.
struct sampling_options {
  double temperature = 0.0;  ///< 0: greedy
  std::int64_t top_k = 0;    ///< keep the k most likely; 0: all
  double top_p = 1.0;        ///< keep the smallest set of at least this probability
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
