#include <mpt/generate/sampler.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include <parallel/core/error.hpp>
#include <parallel/core/philox.hpp>

namespace mpt {

sampler::sampler(sampling_options options) : options_(options) {
  parallel::require(options.temperature >= 0 && std::isfinite(options.temperature),
                    "temperature must be a number of at least 0, found ", options.temperature);
  parallel::require(options.top_k >= 0, "top-k must not be negative, found ", options.top_k);
  parallel::require(options.top_p > 0 && options.top_p <= 1,
                    "top-p must be above 0 and at most 1, found ", options.top_p);
}

std::int32_t sampler::pick(std::span<float const> logits) {
  parallel::require(!logits.empty(), "there is no token to choose from");
  parallel::require(std::ranges::none_of(logits, [](float logit) { return std::isnan(logit); }),
                    "the model's results are no numbers (NaN): its weights are damaged, or too "
                    "large for this precision");
  if (options_.temperature == 0) {
    auto const best = std::ranges::max_element(logits);
    return static_cast<std::int32_t>(best - logits.begin());
  }
  auto const order = candidates(logits);
  std::vector<double> weights(order.size());
  double const largest = logits[static_cast<std::size_t>(order[0])];
  double total = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    weights[i] =
        std::exp((logits[static_cast<std::size_t>(order[i])] - largest) / options_.temperature);
    total += weights[i];
  }
  double kept_weight = 0;
  std::size_t count = 0;
  while (count < order.size() && (count == 0 || kept_weight < options_.top_p * total))
    kept_weight += weights[count++];
  parallel::philox const random(options_.seed, parallel::stream_id("generate"));
  double target = static_cast<double>(random.uniform(pick_count_++)) * kept_weight;
  for (std::size_t i = 0; i < count; ++i) {
    target -= weights[i];
    if (target < 0) return order[i];
  }
  return order[count - 1];
}

std::vector<std::int32_t> sampler::candidates(std::span<float const> logits) const {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  auto const likelier = [&](std::int32_t a, std::int32_t b) {
    float const left = logits[static_cast<std::size_t>(a)];
    float const right = logits[static_cast<std::size_t>(b)];
    return left > right || (left == right && a < b);
  };
  auto const kept_count = options_.top_k == 0
                              ? order.size()
                              : std::min(order.size(), static_cast<std::size_t>(options_.top_k));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept_count),
                    order.end(), likelier);
  order.resize(kept_count);
  return order;
}

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
