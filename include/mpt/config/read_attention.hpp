// Reads `attn_config` and `block_overrides` into an attention_config and what layers change of it.
//
// What has one implementation here (of attention, of the same rotation) is without effect; numbers
// are checked by check_attention.
#pragma once

#include <cstdint>
#include <vector>

#include <mpt/config/attention.hpp>
#include <mpt/config/reader.hpp>

namespace mpt::detail {

/// Of a model of this width.
[[nodiscard]] attention_config read_attention(config_reader& reader, std::int64_t d_model);

/// `block_overrides`, layer by layer; empty when there are none.
[[nodiscard]] std::vector<layer_override> read_overrides(config_reader& model,
                                                         std::int64_t n_layers);

}  // namespace mpt::detail
