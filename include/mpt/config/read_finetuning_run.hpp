// What finetuning adds to a training configuration: a model that lies in a Hugging Face folder, and
// what data of prompts and responses ask of the rest.
#pragma once

#include <mpt/config/mirrors.hpp>
#include <mpt/config/reader.hpp>
#include <mpt/config/train.hpp>

namespace mpt::detail {

/// `model`, of either kind; the weights of a Hugging Face folder become `load_path` unless that is
/// given.
void read_trained_model(config_reader& reader, train_config& config, hub_mirrors const& mirrors);

/// Checks what finetuning data ask of the rest, and lets packed examples see only themselves.
void adapt_to_finetuning(config_reader& reader, config_node const& document, train_config& config,
                         hub_mirrors const& mirrors);

}  // namespace mpt::detail
