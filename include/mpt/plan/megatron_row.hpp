// megatron_row: a row of a table of Megatron-LM's functional tests as a published row.
//
// Its columns are those of published_row except for: case and platform, the test and its machine;
// sp and dist_optimizer, true or empty; fsdp; vpp, the blocks of a virtual stage;
// mem_allocated_bytes and mem_max_allocated_bytes, of the last rank. A test runs on 8 GPUs, on a
// GB200's node of 4 where its name says 1node, and trains a GPT on the vocabulary of GPT-2 unless
// the row says otherwise. The notes begin with its precision, "fused" or "unfused", its attention,
// and "without dropout" where it has none.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <mpt/plan/published_row.hpp>

namespace mpt {

/// Whether a row has the columns of such a table.
[[nodiscard]] bool is_megatron_row(nlohmann::json const& fields);

/// The row with its own checksum. Throws `error` with the reason where it cannot be planned: a
/// model other than a GPT, stages of unequal sizes.
[[nodiscard]] published_row megatron_row(nlohmann::json fields, std::string location);

}  // namespace mpt
