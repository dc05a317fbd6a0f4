// The parts of a training configuration that belong to finetuning: a model in a Hugging Face
// folder, and the requirements of data with prompts and responses.
#pragma once

#include <string>
#include <vector>

#include <mpt/config/data/mirrors.hpp>
#include <mpt/config/train.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt::detail {

/// Reads `model`, either mpt_causal_lm or hf_causal_lm, and its adapters;
/// `config.checkpoint.pretrained` becomes the Hugging Face folder whose weights the run begins
/// with.
void read_trained_model(config_reader& reader, model_config& model, checkpoint_config& checkpoint,
                        hub_mirrors const& mirrors);

/// Raises the model's vocabulary to the tokenizer's where that is larger, as LLM Foundry does for
/// allow_embedding_resizing. `notes`: for the user.
void fit_vocabulary(model_config& model, std::string const& tokenizer_name,
                    std::vector<std::string>& notes);

/// Limits the attention of packed examples to themselves, and finds the sets of the mirrors.
/// `notes`: for the user.
void adapt_to_finetuning(config_reader& reader, config_node const& document, model_config& model,
                         data_config& data, std::vector<std::string>& notes,
                         hub_mirrors const& mirrors);

/// Refuses times in tokens, which rows of finetuning data cannot have.
void check_times_of_finetuning(config_reader& reader, optimizer_config const& optimizer,
                               run_config const& run, checkpoint_config const& checkpoint,
                               callbacks_config const& callbacks);

}  // namespace mpt::detail
