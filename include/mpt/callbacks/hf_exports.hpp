// hf_exports_of: reads what the folders of an hf_checkpointer hold beside weights, before any rank
// trains.
#pragma once

#include <string>

#include <mpt/callbacks/hf_checkpointer.hpp>
#include <mpt/config/train.hpp>

namespace mpt {

/// The exports of a configuration that has an hf_checkpointer. Reads the tokenizer's files if they
/// exist. `base`: the base model of a run that trains adapters, see adapter_base_of.
[[nodiscard]] hf_exports hf_exports_of(model_config const& model, data_config const& data,
                                       callbacks_config const& callbacks, std::string const& base);

}  // namespace mpt
