// The linear layers of a model's blocks with names and shapes: the layers that may have adapters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mpt/config/model.hpp>

namespace mpt {

struct linear_layer {
  std::string name;  // "transformer.blocks.0.attn.Wqkv"
  std::int64_t out = 0;
  std::int64_t in = 0;
};

/// The linear layers in the order of the blocks.
[[nodiscard]] std::vector<linear_layer> linear_layers(model_config const& model);

/// The number of parameters of a model's adapters, rank * (in + out) for each adapted layer;
/// parameter_count does not include them.
[[nodiscard]] std::int64_t adapter_parameter_count(model_config const& model);

}  // namespace mpt
