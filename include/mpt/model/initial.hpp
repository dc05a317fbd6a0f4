// Initial distributions of MPT's weights, as LLM Foundry's init_config describes them.
//
// Default (kaiming_normal_, fan_in, relu): linear weights Normal(0, √(2/in)); embeddings
// Normal(0, √(2/d)); projections back onto the residual stream are divided by √(2·layers).
// Sources: He et al., 2015, eq. 10 (kaiming); Glorot, Bengio, 2010, eq. 16 (xavier); Nguyen,
// Salazar, 2019 (small).
#pragma once

#include <cmath>
#include <string>

#include <mpt/config/model.hpp>
#include <parallel/core/parameter.hpp>

namespace mpt {

class initial_distribution {
 public:
  explicit initial_distribution(model_config config) : config_(std::move(config)) {}

  /// Weight [out, in] of a linear layer.
  [[nodiscard]] parallel::initializer linear(std::int64_t out, std::int64_t in) const {
    return weight(out, in, 1.0);
  }

  /// Weight [out, in] of a projection whose result is added to the residual stream.
  [[nodiscard]] parallel::initializer residual(std::int64_t out, std::int64_t in) const {
    return weight(out, in, residual_divisor(config_));
  }

  /// Bias of a linear layer of `in` inputs: zero, except in torch's default scheme.
  [[nodiscard]] parallel::initializer bias(std::int64_t in) const {
    if (config_.init.name != init_scheme::torch_default) return parallel::constant_init{0.0F};
    return uniform(1.0 / std::sqrt(static_cast<double>(in)));
  }

  /// Token and position tables of `rows` rows.
  [[nodiscard]] parallel::initializer embedding(std::int64_t rows) const {
    if (config_.init.name == init_scheme::torch_default) return normal(1.0);  // ignores emb_init_*
    if (config_.init.emb_init_std) return normal(*config_.init.emb_init_std);
    if (config_.init.emb_init_uniform_lim) {
      auto const [low, high] = *config_.init.emb_init_uniform_lim;
      return parallel::uniform_init{static_cast<float>(low), static_cast<float>(high)};
    }
    return weight(rows, config_.d_model, 1.0);
  }

 private:
  static parallel::initializer normal(double deviation) {
    return parallel::normal_init{static_cast<float>(deviation)};
  }
  static parallel::initializer uniform(double limit) {
    return parallel::uniform_init{static_cast<float>(-limit), static_cast<float>(limit)};
  }

  /// torch.nn.init.calculate_gain.
  [[nodiscard]] double kaiming_gain() const {
    std::string const& kind = config_.init.init_nonlinearity;
    if (kind == "relu") return std::sqrt(2.0);
    if (kind == "leaky_relu")
      return std::sqrt(2.0 / (1.0 + config_.init.init_gain * config_.init.init_gain));
    if (kind == "tanh") return 5.0 / 3.0;
    if (kind == "selu") return 0.75;
    return 1.0;  // linear, sigmoid
  }

  [[nodiscard]] parallel::initializer weight(std::int64_t out, std::int64_t in,
                                             double divisor) const {
    auto const inputs = static_cast<double>(in);
    auto const inputs_and_outputs = static_cast<double>(in + out);
    auto const width = static_cast<double>(config_.d_model);
    double const fan = config_.init.fan_mode == "fan_out" ? static_cast<double>(out) : inputs;
    double const gain = config_.init.init_gain;
    switch (config_.init.name) {
      case init_scheme::torch_default: return uniform(1.0 / std::sqrt(inputs) / divisor);
      case init_scheme::baseline: return normal(config_.init.init_std.value_or(0.02) / divisor);
      case init_scheme::kaiming_uniform:
        return uniform(kaiming_gain() * std::sqrt(3.0 / fan) / divisor);
      case init_scheme::xavier_uniform:
        return uniform(gain * std::sqrt(6.0 / inputs_and_outputs) / divisor);
      case init_scheme::xavier_normal:
        return normal(gain * std::sqrt(2.0 / inputs_and_outputs) / divisor);
      case init_scheme::neox:
      case init_scheme::small: return normal(std::sqrt(2.0 / (5.0 * width)) / divisor);
      default: return normal(kaiming_gain() / std::sqrt(fan) / divisor);
    }
  }

  model_config config_;
};

}  // namespace mpt
