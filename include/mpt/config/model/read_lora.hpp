// Reads `peft_config` of a configuration or PEFT's adapter_config.json, and writes the latter.
//
// LoRA for the linear layers of blocks is supported, with ranks and alphas by layer; other methods
// of PEFT (DoRA, trained biases, fully trained layers) are refused by name. A trained adapter with
// such a setting would compute something else without it, so the message advises to let PEFT merge
// the adapter into its model.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <mpt/config/model.hpp>
#include <mpt/config/model/lora.hpp>
#include <mpt/yaml/reader.hpp>
#include <parallel/checkpoint/format/json.hpp>

namespace mpt {

/// Reads and checks the adapters of a model, all keys of the mapping.
[[nodiscard]] lora_config read_lora(config_reader& reader, model_config const& model);

/// The name of PEFT's configuration in an adapter's folder.
inline constexpr std::string_view adapter_config_name = "adapter_config.json";

/// Whether `folder` is an adapter in PEFT's form.
[[nodiscard]] bool is_adapter_folder(std::filesystem::path const& folder);

/// Reads the adapter_config.json of a folder.
[[nodiscard]] nlohmann::json read_adapter_json(std::filesystem::path const& folder);

/// A model as PEFT's configuration names it.
struct named_model {
  std::string name = {};          ///< a folder or a repository of the hub; "": none
  std::string revision = "main";  ///< of that repository
};

/// The model that PEFT's configuration, which `source` names in messages, says it adapts. Throws if
/// its revision is none.
[[nodiscard]] named_model adapted_name(nlohmann::json const& json, std::string const& source);

/// The adapters of `model` that PEFT's configuration describes; `source` names it in messages.
[[nodiscard]] lora_config from_peft_json(nlohmann::json const& json, model_config const& model,
                                         std::string const& source);

/// PEFT's configuration of adapters for the model `base`, which is of the family and the shape of
/// `model`. The revision is null, as PEFT has it, for the main one.
[[nodiscard]] nlohmann::json to_peft_json(lora_config const& lora, named_model const& base,
                                          model_config const& model = {});

/// The same for the file of an adapter's folder. Where a model has experts, PEFT (0.21,
/// utils/transformers_weight_conversion.py) takes the names of feed-forward matrices for those of
/// experts, so that matrices of dense layers are among target_parameters, one by one.
[[nodiscard]] nlohmann::json to_peft_file(lora_config const& lora, named_model const& base,
                                          model_config const& model);

}  // namespace mpt
