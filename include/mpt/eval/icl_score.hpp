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

/// A model that scores and continues rows. Refers to its arguments. Memory: a KV cache of
/// `longest` tokens and a pass over as many as it has met.
template <class T, class Device>
class task_model {
 public:
  using stream_type = typename Device::stream_type;

  task_model(model<T> const& net, Device& device, stream_type& stream, index longest)
      : net_(net),
        device_(device),
        stream_(stream),
        cache_(net.config(), longest, device),
        ids_(device.template allocate<std::int32_t>(static_cast<std::size_t>(longest))) {}

  [[nodiscard]] std::vector<option_score> score(std::span<scored_ids const> options) {
    auto const common = common_beginning(options);
    cache_.keep(0);
    if (common > 0) static_cast<void>(read(options.front(), 0, common, 0));
    std::vector<option_score> out;
    for (auto const& option : options) {
      cache_.keep(static_cast<index>(common));
      auto const scored = option.ids.size() - option.begin;
      // the last id predicts nothing that is scored
      auto const logits = read(option, common, option.ids.size() - 1, scored);
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

  /// As mpt::generate.
  [[nodiscard]] std::vector<std::int32_t> generate(std::span<std::int32_t const> prompt,
                                                   generation_options const& options) {
    return mpt::generate(net_, device_, stream_, prompt, options);
  }

 private:
  /// Reads ids [from, to) behind what is in the cache; the logits of the last `wanted`.
  [[nodiscard]] std::vector<float> read(scored_ids const& row, std::size_t from, std::size_t to,
                                        std::size_t wanted) {
    auto const part = std::span(row.ids).subspan(from, to - from);
    auto const rows = static_cast<index>(part.size());
    auto const logits = static_cast<index>(wanted);
    if (rows > rows_ || logits > logits_) {
      rows_ = std::max(rows, rows_);
      logits_ = std::max(logits, logits_);
      memory_ = {};
      memory_ = arena(device_.template allocate<std::byte>(
          generation_bytes(net_, std::max(rows_, logits_), logits_)));
    }
    auto const here = ids_.span().first(part.size());
    device_.upload(here, part);
    return next_logits(net_, device_, stream_, memory_, cache_,
                       vector_view<std::int32_t const>(here.data(), {rows}), logits);
  }

  model<T> const& net_;
  Device& device_;
  stream_type& stream_;
  generation_cache<T> cache_;
  buffer<std::int32_t> ids_;
  arena memory_;
  index rows_ = 0;
  index logits_ = 0;
};

}  // namespace mpt::icl
