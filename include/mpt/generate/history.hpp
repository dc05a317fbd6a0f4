// Adjusts the logits of the next token by the tokens of the text so far: a penalty on repeated
// tokens (Keskar et al., "CTRL", 2019) and a ban on repeated n-grams, as in transformers'
// generate.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt {

struct history_options {
  double repetition_penalty = 1.0;        ///< above 1: tokens of the text become less likely
  std::int64_t no_repeat_ngram_size = 0;  ///< no n-gram of this length occurs twice; 0: no ban
};

/// The tokens of a text so far, prompt included.
class token_history {
 public:
  token_history(history_options options, std::span<std::int32_t const> prompt)
      : options_(options), ids_(prompt.begin(), prompt.end()) {
    parallel::require(options.repetition_penalty > 0, "repetition_penalty must be above 0, found ",
                      options.repetition_penalty);
    parallel::require(options.no_repeat_ngram_size >= 0,
                      "no_repeat_ngram_size must not be negative, found ",
                      options.no_repeat_ngram_size);
  }

  void add(std::int32_t id) { ids_.push_back(id); }

  /// Changes the logits of the next token. The cost grows with the length of the text.
  void apply(std::span<float> logits) const {
    if (options_.repetition_penalty != 1) penalise(logits);
    if (options_.no_repeat_ngram_size > 0) ban(logits);
  }

 private:
  void penalise(std::span<float> logits) const {
    auto distinct = ids_;
    std::ranges::sort(distinct);
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    auto const penalty = static_cast<float>(options_.repetition_penalty);
    for (auto const id : distinct) {
      auto& logit = logits[static_cast<std::size_t>(id)];
      logit = logit < 0 ? logit * penalty : logit / penalty;
    }
  }

  /// Bans every token that would complete an n-gram that the text already holds.
  void ban(std::span<float> logits) const {
    auto const prefix = static_cast<std::size_t>(options_.no_repeat_ngram_size - 1);
    if (ids_.size() <= prefix) return;
    auto const last = ids_.end() - static_cast<std::ptrdiff_t>(prefix);
    for (std::size_t begin = 0; begin + prefix < ids_.size(); ++begin)
      if (std::equal(last, ids_.end(), ids_.begin() + static_cast<std::ptrdiff_t>(begin)))
        logits[static_cast<std::size_t>(ids_[begin + prefix])] =
            -std::numeric_limits<float>::infinity();
  }

  history_options options_;
  std::vector<std::int32_t> ids_;
};

}  // namespace mpt
