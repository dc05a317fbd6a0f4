// open_pretrained: opens the weights that a run begins from, in a Hugging Face folder or in another
// run's checkpoint, and its adapters, in PEFT's format or with initial values.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <mpt/config/train.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/model/model.hpp>
#include <mpt/train/checkpoint/weight_source.hpp>

namespace mpt {

/// Opens the weights in `folder`; the adapters of a run with adapters come from
/// `checkpoint.adapter`, from `folder`, or are new. Throws when the weights belong to
/// another model or lack tensors.
[[nodiscard]] std::unique_ptr<weight_source> open_pretrained(model_config const& model,
                                                             optimizer_config const& optimizer,
                                                             run_config const& run,
                                                             checkpoint_config const& checkpoint,
                                                             std::filesystem::path const& folder);

/// The model whose adapters the run trains: the Hugging Face folder that the run begins from or,
/// where it begins from another run's checkpoint, the model that this checkpoint records. Empty if
/// there is none, or the run trains no adapters. Throws where a run continues from a checkpoint
/// whose adapters were trained for other weights than `checkpoint.pretrained` has.
[[nodiscard]] hf::adapted_model adapter_base_of(model_config const& model,
                                                checkpoint_config const& checkpoint);

}  // namespace mpt
