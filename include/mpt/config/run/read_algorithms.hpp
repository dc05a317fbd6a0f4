// Reads `algorithms`: Composer's gradient clipping, and the names of its algorithms that change a
// model. Here only the keys of `model` change the model.
#pragma once

#include <mpt/config/model.hpp>
#include <mpt/yaml/reader.hpp>
#include <parallel/train/clipping.hpp>

namespace mpt {

/// Reads `algorithms` of a run that trains `model` and returns the gradient clipping.
/// `new_adapters`: the run begins with new adapters, half of which are zero.
[[nodiscard]] parallel::train::clipping read_algorithms(config_reader reader,
                                                        model_config const& model,
                                                        bool new_adapters = false);

}  // namespace mpt
