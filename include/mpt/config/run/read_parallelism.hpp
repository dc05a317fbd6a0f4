// Reads `parallelism`, and LLM Foundry's `tp_config`, which sets parallelism.tensor.
//
// run_layout checks the degrees against the model, the data and the number of ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include <mpt/config/run/parallelism.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt::detail {

[[nodiscard]] int check_degree(config_reader const& reader, std::string_view key,
                               std::int64_t degree);

/// The tensor degree that `tp_config` asks for.
[[nodiscard]] int read_tensor_degree(config_reader reader);

/// Reads `parallelism` and `tp_config` of a whole document; `out` holds the degrees that other keys
/// have set.
[[nodiscard]] parallelism_config read_parallelism(config_reader& parent,
                                                  parallelism_config out = {});

}  // namespace mpt::detail
