// Reads `model.activation_checkpointing_target`: which modules of which blocks recompute.
//
// LLM Foundry's forms (llmfoundry/models/utils/act_ckpt.py): a module name, a list of names (of all
// blocks), or a mapping from names to blocks: a count of first blocks, "first-n", "middle-n",
// "last-n", "range-i-j" (i to j-1), several of those with commas between, or a list of block
// numbers and such words. Like there, ranges are cut at the last block.
#pragma once

#include <cstdint>

#include <mpt/config/reader.hpp>
#include <mpt/config/recompute.hpp>

namespace mpt::detail {

/// What the key says, for a model of so many blocks; without it, all of every block.
[[nodiscard]] block_recomputation read_recompute(config_reader& reader, std::int64_t blocks);

}  // namespace mpt::detail
