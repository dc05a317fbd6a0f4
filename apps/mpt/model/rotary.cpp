#include <mpt/model/rotary.hpp>

#include <cmath>
#include <cstddef>
#include <numbers>

namespace mpt {

namespace {

/// YaRN's share of each of the `pairs` frequencies that is kept; the remaining share is divided by
/// the factor. It falls linearly from 1 to 0 between the pair that turns beta_fast times in the
/// positions trained on and the pair that turns beta_slow times.
[[nodiscard]] double yarn_unscaled_share(rope_config const& rope, std::int64_t pair,
                                         std::int64_t pairs) {
  auto const width = static_cast<double>(2 * pairs);
  auto const trained = static_cast<double>(rope.original_max_position_embeddings);
  auto const pair_that_turns = [&](double times) {
    return width * std::log(trained / (times * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.theta));
  };
  double low = pair_that_turns(rope.beta_fast);
  double high = pair_that_turns(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::fmax(low, 0.0);
  high = std::fmin(high, width - 1.0);
  if (low == high) high += 0.001;
  return 1.0 - std::fmin(std::fmax((static_cast<double>(pair) - low) / (high - low), 0.0), 1.0);
}

}  // namespace

std::vector<double> rotary_frequencies(rope_config const& rope, std::int64_t head_dim) {
  auto const trained = static_cast<double>(rope.original_max_position_embeddings);
  std::int64_t const width = rope.rotary_dim.value_or(head_dim);
  auto out = parallel::ops::rope_frequencies(rope.theta, width);
  for (double& frequency : out) {
    if (rope.scaling == rope_scaling::linear) frequency /= rope.factor;
    if (rope.scaling == rope_scaling::llama3) {
      double const turns = trained * frequency / (2.0 * std::numbers::pi);
      double const share =
          (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      double const unscaled = std::fmin(std::fmax(share, 0.0), 1.0);
      frequency *= unscaled + (1.0 - unscaled) / rope.factor;
    }
  }
  if (rope.scaling == rope_scaling::yarn)
    for (std::int64_t pair = 0; pair < width / 2; ++pair) {
      double const unscaled = yarn_unscaled_share(rope, pair, width / 2);
      out[static_cast<std::size_t>(pair)] *= unscaled + (1.0 - unscaled) / rope.factor;
    }
  return out;
}

std::vector<double> rotary_growths(rope_config const& rope, std::int64_t head_dim) {
  std::vector<double> out;
  if (!rope.xpos_scale_base) return out;
  auto const width = static_cast<double>(head_dim);
  for (std::int64_t i = 0; i < head_dim / 2; ++i)
    out.push_back(std::log((2.0 * static_cast<double>(i) + 0.4 * width) / (1.4 * width)) /
                  *rope.xpos_scale_base);
  return out;
}

}  // namespace mpt
