// Initial distributions of MPT's weights, as LLM Foundry's init_config describes them.
//
// Default (kaiming_normal_, fan_in, relu): linear weights Normal(0, √(2/in)); embeddings
// Normal(0, √(2/d)); projections back onto the residual stream are divided by √(2·layers).
// Sources: He et al., 2015, eq. 10 (kaiming); Glorot, Bengio, 2010, eq. 16 (xavier); Nguyen,
// Salazar, 2019 (small).
#pragma once

#include <cstdint>
#include <utility>

#include <mpt/config/model.hpp>
#include <parallel/core/parameter.hpp>

namespace mpt {

class initial_distribution {
 public:
  explicit initial_distribution(model_config config) : config_(std::move(config)) {}

  /// Weight [out, in] of a linear layer.
  [[nodiscard]] parallel::initializer linear(std::int64_t out, std::int64_t in) const;

  /// Weight [out, in] of a projection whose result is added to the residual stream.
  [[nodiscard]] parallel::initializer residual(std::int64_t out, std::int64_t in) const;

  /// Bias of a linear layer of `in` inputs: zero, except in torch's default scheme.
  [[nodiscard]] parallel::initializer bias(std::int64_t in) const;

  /// Token and position tables of `rows` rows.
  [[nodiscard]] parallel::initializer embedding(std::int64_t rows) const;

 private:
  static parallel::initializer normal(double deviation);
  static parallel::initializer uniform(double limit);

  /// torch.nn.init.calculate_gain.
  [[nodiscard]] double kaiming_gain() const;

  [[nodiscard]] parallel::initializer weight(std::int64_t out, std::int64_t in,
                                             double divisor) const;

  model_config config_;
};

}  // namespace mpt
