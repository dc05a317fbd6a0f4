// What was written so far bears on what comes next: a penalty on repeated tokens (Keskar et al.,
// "CTRL", 2019) and a ban on repeated runs of tokens, as transformers' generate has them.
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
  double repetition_penalty = 1.0;        ///< above 1: tokens that stand there are less likely
  std::int64_t no_repeat_ngram_size = 0;  ///< no run of so many tokens comes twice; 0: any may
};

/// The tokens so far, prompt included.
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

  /// Changes the logits of the next token. Cost: the length of the text.
  void apply(std::span<float> logits) const {
    if (options_.repetition_penalty != 1) penalise(logits);
    if (options_.no_repeat_ngram_size > 0) ban(logits);
  }

 private:
  void penalise(std::span<float> logits) const {
    auto once = ids_;
    std::ranges::sort(once);
    once.erase(std::unique(once.begin(), once.end()), once.end());
    auto const penalty = static_cast<float>(options_.repetition_penalty);
    for (auto const id : once) {
      auto& logit = logits[static_cast<std::size_t>(id)];
      logit = logit < 0 ? logit * penalty : logit / penalty;
    }
  }

  /// Bans what would complete a run that is already there.
  void ban(std::span<float> logits) const {
    auto const before = static_cast<std::size_t>(options_.no_repeat_ngram_size - 1);
    if (ids_.size() <= before) return;
    auto const last = ids_.end() - static_cast<std::ptrdiff_t>(before);
    for (std::size_t at = 0; at + before < ids_.size(); ++at)
      if (std::equal(last, ids_.end(), ids_.begin() + static_cast<std::ptrdiff_t>(at)))
        logits[static_cast<std::size_t>(ids_[at + before])] =
            -std::numeric_limits<float>::infinity();
  }

  history_options options_;
  std::vector<std::int32_t> ids_;
};

}  // namespace mpt
