// Reads `attn_config` and `block_overrides` into an attention_config and the overrides of layers.
//
// Keys that only choose an implementation (of attention, of a rotation) are without effect;
// check_attention checks the numbers.
#pragma once

#include <cstdint>
#include <vector>

#include <mpt/config/model/attention.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt::detail {

/// Reads `attn_config` of a model of width `d_model`.
[[nodiscard]] attention_config read_attention(config_reader& reader, std::int64_t d_model);

/// Reads `block_overrides`, layer by layer; empty when there are none.
[[nodiscard]] std::vector<layer_override> read_overrides(config_reader& model,
                                                         std::int64_t n_layers);

}  // namespace mpt::detail
