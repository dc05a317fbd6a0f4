// Reads `model` of a configuration into a model_config.
//
// Every key of LLM Foundry's MPTConfig is known here. A key that only chooses an implementation (of
// attention, of the loss, of the device of initialisation) is listed as without effect; an
// unsupported key that would change the model is an error. check_model checks dropouts, shapes and
// the other numbers.
//
// Reads `attn_config` and `block_overrides` into an attention_config and the overrides of layers.
//
// Keys that only choose an implementation (of attention, of a rotation) are without effect;
// check_attention checks the numbers.
//
// Reads `model.activation_checkpointing_target`: the modules and blocks that recompute activations.
//
// LLM Foundry's forms (llmfoundry/models/utils/act_ckpt.py): a module name, a list of names (of all
// blocks), or a mapping from names to blocks: a count of first blocks, "first-n", "middle-n",
// "last-n", "range-i-j" (i to j-1), several of those separated by commas, or a list of block
// numbers and such words. As in LLM Foundry, a range ends at the last block.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/config/model.hpp>
#include <mpt/config/model/attention.hpp>
#include <mpt/config/model/recompute.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt {

/// LLM Foundry's spelling of each init_scheme.
inline constexpr std::array<std::pair<std::string_view, init_scheme>, 8> init_scheme_names{
    {{"default_", init_scheme::torch_default},
     {"baseline_", init_scheme::baseline},
     {"kaiming_uniform_", init_scheme::kaiming_uniform},
     {"kaiming_normal_", init_scheme::kaiming_normal},
     {"neox_init_", init_scheme::neox},
     {"small_init_", init_scheme::small},
     {"xavier_uniform_", init_scheme::xavier_uniform},
     {"xavier_normal_", init_scheme::xavier_normal}}};

/// `branch_norms`.
inline constexpr std::array<std::pair<std::string_view, norm_position>, 3> norm_position_names{
    {{"input", norm_position::input},
     {"output", norm_position::output},
     {"both", norm_position::both}}};

/// `ffn_act_fn.name`; gelu_tanh is gelu with `approximate: tanh`.
inline constexpr std::array<std::pair<std::string_view, parallel::ops::activation_kind>, 4>
    activation_names{{{"gelu", parallel::ops::activation_kind::gelu},
                      {"quick_gelu", parallel::ops::activation_kind::quick_gelu},
                      {"silu", parallel::ops::activation_kind::silu},
                      {"relu", parallel::ops::activation_kind::relu}}};

/// Reads and checks a model. Does not call `reader.finish()`: the caller handles the keys of
/// config.json that belong to no model.
[[nodiscard]] model_config read_model(config_reader& reader);

}  // namespace mpt

namespace mpt::detail {

/// Reads `attn_config` of a model of width `d_model`.
[[nodiscard]] attention_config read_attention(config_reader& reader, std::int64_t d_model);

/// Reads `block_overrides`, layer by layer; empty when there are none.
[[nodiscard]] std::vector<layer_override> read_overrides(config_reader& model,
                                                         std::int64_t n_layers);

/// The recomputation that the key describes for a model of `blocks` blocks; without the key, every
/// block is recomputed whole.
[[nodiscard]] block_recomputation read_recompute(config_reader& reader, std::int64_t blocks);

}  // namespace mpt::detail
