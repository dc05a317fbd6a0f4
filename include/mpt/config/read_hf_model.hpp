// Reads `model` with name: hf_causal_lm: an MPT in a Hugging Face folder on this machine, whose
// config.json `config_overrides` changes. Keys that only choose an implementation are listed as
// without effect; another kind of model than MPT is refused.
#pragma once

#include <string>

#include <mpt/config/mirrors.hpp>
#include <mpt/config/reader.hpp>
#include <mpt/config/model.hpp>

namespace mpt {

/// A model of that kind.
struct hf_causal_lm {
  model_config model;
  std::string folder;      ///< where config.json, and the weights, lie
  bool pretrained = true;  ///< begins with those weights, else with initial values
};

/// Reads and checks such a model. Does not call `reader.finish()`.
[[nodiscard]] hf_causal_lm read_hf_causal_lm(config_reader& reader, hub_mirrors const& mirrors);

}  // namespace mpt
