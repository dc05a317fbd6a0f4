#include <mpt/model/rotary.hpp>

#include <cmath>
#include <numbers>

namespace mpt {

std::vector<double> rotary_frequencies(rope_config const& rope, std::int64_t head_dim) {
  auto const trained = static_cast<double>(rope.original_max_position_embeddings);
  auto out = parallel::ops::rope_frequencies(rope.theta, head_dim);
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
