// Reads `algorithms`: Composer's gradient clipping, and those of its algorithms that change a
// model, which here only the model's own keys do.
#pragma once

#include <mpt/config/model.hpp>
#include <mpt/config/reader.hpp>
#include <parallel/train/clipping.hpp>

namespace mpt {

/// Reads `algorithms` of a run that trains `model`: how gradients are clipped.
[[nodiscard]] parallel::train::clipping read_algorithms(config_reader reader,
                                                        model_config const& model,
                                                        bool new_adapters = false);

}  // namespace mpt
