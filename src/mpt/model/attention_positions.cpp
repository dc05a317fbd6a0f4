#include <mpt/model/attention_positions.hpp>

#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <variant>

namespace mpt {
namespace {

/// The frequency of which the share `unscaled` stays and the remaining share is divided.
[[nodiscard]] double divided(double frequency, double unscaled, double factor) {
  return frequency * (unscaled + (1.0 - unscaled) / factor);
}

/// YaRN's share of each of the `pairs` frequencies that is kept; the remaining share is divided by
/// the factor. It falls linearly from 1 to 0 between the pair that turns beta_fast times in the
/// positions trained on and the pair that turns beta_slow times.
[[nodiscard]] double yarn_unscaled_share(yarn_rope const& yarn, double theta, std::size_t pair,
                                         std::size_t pairs) {
  auto const width = static_cast<double>(2 * pairs);
  auto const trained = static_cast<double>(yarn.original_max_position_embeddings);
  auto const pair_that_turns = [&](double times) {
    return width * std::log(trained / (times * 2.0 * std::numbers::pi)) / (2.0 * std::log(theta));
  };
  double low = pair_that_turns(yarn.beta_fast);
  double high = pair_that_turns(yarn.beta_slow);
  if (yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::fmax(low, 0.0);
  high = std::fmin(high, width - 1.0);
  if (low == high) high += 0.001;
  return 1.0 - std::fmin(std::fmax((static_cast<double>(pair) - low) / (high - low), 0.0), 1.0);
}

using frequency_span = std::span<double>;

void scale_frequencies(unscaled_rope const& /*scaling*/, double /*theta*/,
                       frequency_span /*frequencies*/) {}
void scale_frequencies(dynamic_rope const& /*scaling*/, double /*theta*/,
                       frequency_span /*frequencies*/) {}

void scale_frequencies(linear_rope const& linear, double /*theta*/, frequency_span frequencies) {
  for (double& frequency : frequencies) frequency /= linear.factor;
}

void scale_frequencies(llama3_rope const& llama3, double /*theta*/, frequency_span frequencies) {
  auto const trained = static_cast<double>(llama3.original_max_position_embeddings);
  for (double& frequency : frequencies) {
    double const turns = trained * frequency / (2.0 * std::numbers::pi);
    double const share =
        (turns - llama3.low_freq_factor) / (llama3.high_freq_factor - llama3.low_freq_factor);
    frequency = divided(frequency, std::fmin(std::fmax(share, 0.0), 1.0), llama3.factor);
  }
}

void scale_frequencies(yarn_rope const& yarn, double theta, frequency_span frequencies) {
  for (std::size_t pair = 0; pair < frequencies.size(); ++pair) {
    double const unscaled = yarn_unscaled_share(yarn, theta, pair, frequencies.size());
    frequencies[pair] = divided(frequencies[pair], unscaled, yarn.factor);
  }
}

void divide_each(frequency_span frequencies, std::vector<double> const& factors) {
  for (std::size_t pair = 0; pair < frequencies.size(); ++pair) frequencies[pair] /= factors[pair];
}

void scale_frequencies(long_rope const& scaling, double /*theta*/, frequency_span frequencies) {
  divide_each(frequencies, scaling.short_factor);
}

}  // namespace

std::vector<double> long_frequencies(rope_config const& rope, std::int64_t head_dim) {
  auto const* const scaling = std::get_if<long_rope>(&rope.scaling);
  if (scaling == nullptr) return {};
  auto frequencies =
      parallel::ops::rope_frequencies(rope.theta, rope.rotary_dim.value_or(head_dim));
  divide_each(frequencies, scaling->long_factor);
  return frequencies;
}

std::int64_t short_length(rope_config const& rope) {
  auto const* const scaling = std::get_if<long_rope>(&rope.scaling);
  return scaling == nullptr ? 0 : scaling->original_max_position_embeddings;
}

double rotary_scale(rope_config const& rope) {
  auto const* const scaling = std::get_if<long_rope>(&rope.scaling);
  return scaling == nullptr ? 1 : scaling->attention_factor;
}

std::vector<double> rotary_frequencies(rope_config const& rope, std::int64_t head_dim) {
  auto frequencies =
      parallel::ops::rope_frequencies(rope.theta, rope.rotary_dim.value_or(head_dim));
  std::visit([&](auto const& scaling) { scale_frequencies(scaling, rope.theta, frequencies); },
             rope.scaling);
  return frequencies;
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

std::vector<float> alibi_slopes(int heads, double bias_max) {
  int power = 1;
  while (power < heads) power *= 2;
  auto const slope = [&](int i) { return static_cast<float>(std::exp2(-i * bias_max / power)); };
  std::vector<float> slopes;
  if (power == heads) {
    for (int i = 1; i <= power; ++i) slopes.push_back(slope(i));
    return slopes;
  }
  for (int i = 2; i <= power; i += 2) slopes.push_back(slope(i));
  for (int i = 1; i <= power; i += 2) slopes.push_back(slope(i));
  slopes.resize(static_cast<std::size_t>(heads));
  return slopes;
}

}  // namespace mpt
