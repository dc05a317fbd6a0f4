// Reads what surrounds the training step: FSDP's settings, logging, and our own keys.
//
// FSDP's strategies are ZeRO stages: FULL_SHARD 3, SHARD_GRAD_OP 2, NO_SHARD 0; the HYBRID ones are
// those over part of the ranks, those of a machine unless a degree is given. PURE becomes fp32
// reductions, which are more exact, unless `reduce_dtype` says bf16; a note says so once.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <mpt/config/reader.hpp>
#include <mpt/config/train.hpp>

namespace mpt::detail {

/// Reads a number of ranks.
[[nodiscard]] std::optional<std::int64_t> read_ranks(config_reader& reader, std::string_view key);

[[nodiscard]] logging_config read_logging(config_reader& reader);

/// `spike_check`; without one no batch is a spike.
void read_spike_check(config_reader& parent, train_config& config);

void read_corruption_check(config_reader& parent, train_config& config);

/// FSDP and our own keys. `config.precision` must be read before, and what `config.recompute` is
/// when it is on.
void read_system(config_reader& reader, train_config& config);

}  // namespace mpt::detail
