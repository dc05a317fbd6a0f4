// Reads `model.activation_checkpointing_target`: the modules and blocks that recompute activations.
//
// LLM Foundry's forms (llmfoundry/models/utils/act_ckpt.py): a module name, a list of names (of all
// blocks), or a mapping from names to blocks: a count of first blocks, "first-n", "middle-n",
// "last-n", "range-i-j" (i to j-1), several of those separated by commas, or a list of block
// numbers and such words. As in LLM Foundry, a range ends at the last block.
#pragma once

#include <cstdint>

#include <mpt/config/model/recompute.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt::detail {

/// The recomputation that the key describes for a model of `blocks` blocks; without the key, every
/// block is recomputed whole.
[[nodiscard]] block_recomputation read_recompute(config_reader& reader, std::int64_t blocks);

}  // namespace mpt::detail
