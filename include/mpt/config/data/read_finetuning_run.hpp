// The parts of a training configuration that belong to finetuning: a model in a Hugging Face
// folder, and the requirements of data with prompts and responses.
#pragma once

#include <mpt/config/data/mirrors.hpp>
#include <mpt/config/train.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt::detail {

/// Reads `model`, either mpt_causal_lm or hf_causal_lm, and its adapters;
/// `config.checkpoint.pretrained` becomes the Hugging Face folder whose weights the run begins
/// with.
void read_trained_model(config_reader& reader, model_config& model, checkpoint_config& checkpoint,
                        hub_mirrors const& mirrors);

/// Checks the requirements of finetuning data, and limits the attention of packed examples to
/// themselves.
void adapt_to_finetuning(config_reader& reader, config_node const& document, train_config& config,
                         hub_mirrors const& mirrors);

}  // namespace mpt::detail
