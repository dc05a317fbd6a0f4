#include <mpt/generate/history.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>

namespace mpt {

token_history::token_history(history_options options, std::span<std::int32_t const> prompt)
    : options_(options), ids_(prompt.begin(), prompt.end()) {
  parallel::require(options.repetition_penalty > 0, "repetition_penalty must be above 0, found ",
                    options.repetition_penalty);
  parallel::require(options.no_repeat_ngram_size >= 0,
                    "no_repeat_ngram_size must not be negative, found ",
                    options.no_repeat_ngram_size);
}

void token_history::apply(std::span<float> logits) const {
  if (options_.repetition_penalty != 1) penalise_repetitions(logits);
  if (options_.no_repeat_ngram_size > 0) ban_repeated_ngrams(logits);
}

void token_history::penalise_repetitions(std::span<float> logits) const {
  auto distinct = ids_;
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  auto const penalty = static_cast<float>(options_.repetition_penalty);
  for (auto const id : distinct) {
    auto& logit = logits[static_cast<std::size_t>(id)];
    logit = logit < 0 ? logit * penalty : logit / penalty;
  }
}

void token_history::ban_repeated_ngrams(std::span<float> logits) const {
  auto const prefix_size = static_cast<std::size_t>(options_.no_repeat_ngram_size - 1);
  if (ids_.size() <= prefix_size) return;
  auto const last_prefix = ids_.end() - static_cast<std::ptrdiff_t>(prefix_size);
  for (std::size_t begin = 0; begin + prefix_size < ids_.size(); ++begin)
    if (std::equal(last_prefix, ids_.end(), ids_.begin() + static_cast<std::ptrdiff_t>(begin)))
      logits[static_cast<std::size_t>(ids_[begin + prefix_size])] =
          -std::numeric_limits<float>::infinity();
}

}  // namespace mpt
