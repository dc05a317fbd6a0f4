// Reads the settings around the training step: FSDP, logging, and ParallelLM's own keys.
//
// FSDP's strategies are ZeRO stages: FULL_SHARD 3, SHARD_GRAD_OP 2, NO_SHARD 0; the HYBRID
// strategies shard over a part of the ranks, by default the ranks of a machine. mixed_precision
// PURE becomes fp32 reductions, which are more exact, unless `reduce_dtype` is bf16; a note reports
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <mpt/config/train.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt::detail {

/// Reads a number of ranks.
[[nodiscard]] std::optional<std::int64_t> read_ranks(config_reader& reader, std::string_view key);

/// Reads what the console shows.
void read_logging(config_reader& reader, output_config& output);

/// Reads `spike_check`; without it no batch is a spike.
void read_spike_check(config_reader& parent, run_config& run);

void read_corruption_check(config_reader& parent, run_config& run);

/// Reads FSDP's settings and ParallelLM's own keys. `execution.precision` must be set
/// before, and `execution.recompute` must hold the recomputation that applies when the
/// configuration turns it on.
void read_system(config_reader& reader, checkpoint_config const& checkpoint, run_config& run,
                 execution_config& execution);

}  // namespace mpt::detail
