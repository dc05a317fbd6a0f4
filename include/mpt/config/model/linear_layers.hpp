// The linear layers of a model's blocks with names and shapes: the layers that may have adapters.
//
// PEFT names the adapted layers of a family by that family's tensors ("q_proj"), and a lora_config
// by our layers ("attn.Wq"). These functions translate between the two; for an MPT both are the
// same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/config/model.hpp>

namespace mpt {

/// A linear layer's name and shape.
struct linear_layer {
  std::string name;  ///< "transformer.blocks.0.attn.Wqkv"
  std::int64_t out = 0;
  std::int64_t in = 0;
};

/// The linear layers in the order of the blocks.
[[nodiscard]] std::vector<linear_layer> linear_layers(model_config const& model);

/// The number of parameters of a model's adapters, rank * (in + out) for each adapted layer;
/// parameter_count does not include them.
[[nodiscard]] std::int64_t adapter_parameter_count(model_config const& model);

/// A family's name of one of our layers ("transformer.blocks.0.attn.Wq"), or its own name.
[[nodiscard]] std::string peft_layer_name(model_config const& model, std::string_view layer);

/// The targets of ours that name the same layers as PEFT's `target`; empty when it names none.
[[nodiscard]] std::vector<std::string> targets_from_peft(model_config const& model,
                                                         std::string_view target);

/// The shortest target of PEFT's that names the same layers as our `target`.
[[nodiscard]] std::string target_to_peft(model_config const& model, std::string const& target);

}  // namespace mpt
