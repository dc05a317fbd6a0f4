// What a model says of the options of a row: the loss of each one's scored ids, and whether they
// are the likeliest.
//
// What the options have in common before anything is scored is read once, into a KV cache, from
// which each option goes on: a question with four choices costs little more than one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include <mpt/eval/icl_example.hpp>
#include <mpt/generate/generate.hpp>

namespace mpt::icl {

struct option_score {
  double loss = 0;         ///< nats a scored token, their mean: the logarithm of the perplexity
  bool likeliest = false;  ///< every scored token is the likeliest one (ties: the lowest id)
};

/// How many ids all options begin with, of those that come before the last one that is not scored.
[[nodiscard]] inline std::size_t common_beginning(std::span<scored_ids const> options) {
  if (options.size() < 2) return 0;
  std::size_t common = std::numeric_limits<std::size_t>::max();
  for (auto const& option : options) common = std::min(common, option.begin - 1);
  auto const& first = options.front().ids;
  for (auto const& option : options.subspan(1)) {
    auto const end = option.ids.begin() + static_cast<std::ptrdiff_t>(common);
    common = static_cast<std::size_t>(std::mismatch(option.ids.begin(), end, first.begin()).first -
                                      option.ids.begin());
  }
  return common;
}

/// Adds one token's prediction to a score; `logits` over the vocabulary.
inline void add_prediction(option_score& score, std::span<float const> logits,
                           std::int32_t target) {
  auto const best = std::ranges::max_element(logits);
  double const largest = *best;
  double sum = 0;
  for (float const logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  score.loss += std::log(sum) + largest - logits[static_cast<std::size_t>(target)];
  score.likeliest = score.likeliest && best - logits.begin() == target;
}

/// Scores and continues rows by a model, to which it refers.
class task_model {
 public:
  explicit task_model(text_model& reader) : reader_(reader) {}

  [[nodiscard]] std::vector<option_score> score(std::span<scored_ids const> options) {
    auto const common = common_beginning(options);
    auto const ids = [&](scored_ids const& of, std::size_t from, std::size_t to) {
      return std::span(of.ids).subspan(from, to - from);
    };
    reader_.truncate(0, 0);
    if (common > 0) static_cast<void>(reader_.read(0, ids(options.front(), 0, common), 0));
    std::vector<option_score> out;
    for (auto const& option : options) {
      reader_.truncate(0, static_cast<index>(common));
      auto const scored = option.ids.size() - option.begin;
      // the last id predicts nothing that is scored
      auto const logits =
          reader_.read(0, ids(option, common, option.ids.size() - 1), static_cast<index>(scored));
      auto const vocabulary = logits.size() / scored;
      option_score here{.loss = 0, .likeliest = true};
      for (std::size_t i = 0; i < scored; ++i)
        add_prediction(here, std::span(logits).subspan(i * vocabulary, vocabulary),
                       option.ids[option.begin + i]);
      here.loss /= static_cast<double>(scored);
      require(std::isfinite(here.loss),
              "the model's logits are not finite; its weights may be damaged");
      out.push_back(here);
    }
    return out;
  }

  /// As mpt::generate of one prompt.
  [[nodiscard]] std::vector<std::int32_t> generate(std::vector<std::int32_t> const& prompt,
                                                   generation_options const& options) {
    return mpt::generate(reader_, std::span(&prompt, 1), options).front();
  }

 private:
  text_model& reader_;
};

}  // namespace mpt::icl
