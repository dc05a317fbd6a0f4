#include <mpt/model/build.hpp>

#include <cmath>
#include <string>

namespace mpt {

parallel::initializer initial_distribution::linear(std::int64_t out, std::int64_t in) const {
  return weight(out, in, 1.0);
}

parallel::initializer initial_distribution::residual(std::int64_t out, std::int64_t in) const {
  return weight(out, in, residual_divisor(config_));
}

parallel::initializer initial_distribution::bias(std::int64_t in) const {
  if (config_.init.name != init_scheme::torch_default) return parallel::constant_init{0.0F};
  return uniform(1.0 / std::sqrt(static_cast<double>(in)));
}

parallel::initializer initial_distribution::embedding(std::int64_t rows) const {
  if (config_.init.name == init_scheme::torch_default) return normal(1.0);  // ignores emb_init_*
  if (config_.init.emb_init_std) return normal(*config_.init.emb_init_std);
  if (config_.init.emb_init_uniform_lim) {
    auto const [low, high] = *config_.init.emb_init_uniform_lim;
    return parallel::uniform_init{static_cast<float>(low), static_cast<float>(high)};
  }
  return weight(rows, config_.d_model, 1.0);
}

parallel::initializer initial_distribution::normal(double deviation) {
  return parallel::normal_init{static_cast<float>(deviation)};
}

parallel::initializer initial_distribution::uniform(double limit) {
  return parallel::uniform_init{static_cast<float>(-limit), static_cast<float>(limit)};
}

double initial_distribution::kaiming_gain() const {
  std::string const& kind = config_.init.init_nonlinearity;
  if (kind == "relu") return std::sqrt(2.0);
  if (kind == "leaky_relu")
    return std::sqrt(2.0 / (1.0 + config_.init.init_gain * config_.init.init_gain));
  if (kind == "tanh") return 5.0 / 3.0;
  if (kind == "selu") return 0.75;
  return 1.0;  // linear, sigmoid
}

parallel::initializer initial_distribution::weight(std::int64_t out, std::int64_t in,
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

}  // namespace mpt
