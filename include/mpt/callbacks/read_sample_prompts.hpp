// Reads the prompts of a generate_callback, before any rank trains.
#pragma once

#include <mpt/callbacks/sample_prompts.hpp>
#include <mpt/config/train.hpp>

namespace mpt {

/// The prompts of a configuration that has a generate_callback. Throws when the tokenizer does not
/// exist or has more tokens than the model, or a prompt is too long for the model.
[[nodiscard]] sample_prompts read_sample_prompts(model_config const& model, data_config const& data,
                                                 callbacks_config const& callbacks);

}  // namespace mpt
