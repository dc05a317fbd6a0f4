// Reads `model` with name: hf_causal_lm: a model in a Hugging Face folder on this machine, an MPT
// or of another family (family.hpp); `config_overrides` changes settings of its config.json. Keys
// that only choose an implementation are listed as without effect.
#pragma once

#include <string>

#include <mpt/config/data/mirrors.hpp>
#include <mpt/config/model.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt {

/// A model with name: hf_causal_lm.
struct hf_causal_lm {
  model_config model;
  std::string folder;      ///< holds config.json and the weights
  bool pretrained = true;  ///< training begins with the folder's weights, else with initial values
};

/// Reads and checks the model. Does not call `reader.finish()`.
[[nodiscard]] hf_causal_lm read_hf_causal_lm(config_reader& reader, hub_mirrors const& mirrors);

}  // namespace mpt
