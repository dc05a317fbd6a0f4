// Reads `peft_config` of a configuration, or PEFT's adapter_config.json, and writes the latter.
//
// LoRA beside linear layers of blocks is there; what else PEFT has (DoRA, biases, layers trained
// whole, ranks by pattern) is refused by name.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/hf.hpp>
#include <mpt/config/linear_layers.hpp>
#include <mpt/config/lora.hpp>
#include <mpt/config/model.hpp>
#include <mpt/config/reader.hpp>
#include <mpt/config/small_file.hpp>
#include <parallel/checkpoint/json.hpp>

namespace mpt {

namespace detail {

/// The last parts of these layers' names, each once.
[[nodiscard]] inline std::vector<std::string> last_parts(std::vector<linear_layer> const& layers) {
  std::vector<std::string> out;
  for (auto const& layer : layers) {
    auto part = layer.name.substr(layer.name.rfind('.') + 1);
    bool known = false;
    for (auto const& one : out) known = known || one == part;
    if (!known) out.push_back(std::move(part));
  }
  return out;
}

[[nodiscard]] inline std::vector<std::string> read_targets(config_reader& reader,
                                                           model_config const& model) {
  constexpr std::string_view key = "target_modules";
  auto const layers = linear_layers(model);
  auto const all = last_parts(layers);
  config_node const* const node = reader.raw(key);
  if (node == nullptr) {  // as PEFT, which knows MPT
    reader.check(key, model.attn.fused_qkv, "missing; name layers, or use all-linear");
    return {"Wqkv"};
  }
  if (node->is_scalar() && node->text == "all-linear") return all;
  reader.check(key, node->is_list() && !node->items.empty(),
               "expected a list of layers' names, or all-linear, found ", describe(*node));
  std::vector<std::string> out;
  for (auto const& item : node->items) {
    bool found = false;
    for (auto const& layer : layers) found = found || is_target(item.text, layer.name);
    std::string names;
    for (auto const& name : all) names += (names.empty() ? "" : ", ") + name;
    parallel::require(item.is_scalar() && found, item.place, ": ", reader.full_name(key), ": '",
                      printable(item.text), "' is no linear layer of this model's blocks; it has ",
                      names);
    out.push_back(item.text);
  }
  return out;
}

}  // namespace detail

/// Reads and checks the adapters of a model, all keys of the mapping.
[[nodiscard]] inline lora_config read_lora(config_reader& reader, model_config const& model) {
  lora_config out;
  auto const type = reader.get<std::string>("peft_type", "LORA");
  reader.check("peft_type", type == "LORA" || type == "lora", "'", printable(type),
               "' is not supported; use LORA");
  reader.not_yet("task_type", "use CAUSAL_LM", {"CAUSAL_LM"});
  out.rank = reader.get("r", out.rank);
  reader.check("r", out.rank >= 1 && out.rank <= largest_d_model, "must be from 1 to ",
               largest_d_model, ", found ", out.rank);
  out.alpha = reader.get("lora_alpha", out.alpha);
  reader.check("lora_alpha", out.alpha > 0, "must be above 0, found ", out.alpha);
  out.dropout = reader.get("lora_dropout", out.dropout);
  reader.check("lora_dropout", out.dropout >= 0 && out.dropout < 1,
               "is a dropout probability from 0 to below 1, found ", out.dropout);
  out.rank_stabilised = reader.get("use_rslora", out.rank_stabilised);
  out.targets = detail::read_targets(reader, model);
  reader.not_yet("bias", "biases stay as they are: use none", {"none"});
  reader.not_yet("init_lora_weights", "A is uniform and B zero at first: use true", {"true"});
  for (std::string_view const key :
       {"use_dora", "use_qalora", "use_bdlora", "fan_in_fan_out", "lora_bias"})
    reader.not_yet(key, "use false", {"false"});
  for (std::string_view const key :
       {"modules_to_save", "rank_pattern", "alpha_pattern", "layers_to_transform", "layers_pattern",
        "layer_replication", "exclude_modules", "target_parameters", "trainable_token_indices"})
    reader.not_yet(key, "leave it out; target_modules names the layers, all of one rank");
  for (std::string_view const key :
       {"base_model_name_or_path", "revision", "inference_mode", "auto_mapping", "peft_version"})
    reader.without_effect(key, "the adapter stands beside this model");
  reader.finish();
  return out;
}

/// The name of PEFT's configuration in an adapter's folder.
inline constexpr std::string_view adapter_config_name = "adapter_config.json";

/// Whether `folder` is an adapter in PEFT's form.
[[nodiscard]] inline bool is_adapter_folder(std::filesystem::path const& folder) {
  std::error_code unreadable;  // then it is none
  return std::filesystem::exists(folder / adapter_config_name, unreadable);
}

/// What an adapter's folder says of it.
[[nodiscard]] inline nlohmann::json read_adapter_json(std::filesystem::path const& folder) {
  auto const file = folder / adapter_config_name;
  auto json = parallel::checkpoint::parse_json(read_small_file(file), file.string());
  parallel::require(json.is_object(), file.string(), ": must be a JSON object");
  return json;
}

/// The adapters that PEFT's configuration describes, of this model; `source` names it in messages.
[[nodiscard]] inline lora_config from_peft_json(nlohmann::json const& json,
                                                model_config const& model,
                                                std::string const& source) {
  auto told = nlohmann::json::object();  // what is not there is not asked for
  for (auto const& [key, value] : json.items())
    if (!value.is_null() && value != false && !(value.is_structured() && value.empty()))
      told[key] = value;
  if (auto const begin = told.find("init_lora_weights");
      begin != told.end() && (*begin == "gaussian" || begin->is_boolean()))
    told.erase(begin);  // it has begun
  // of methods that have keys of their own to switch them on
  for (char const* const key : {"megatron_core", "qalora_group_size"}) told.erase(key);
  auto const root = detail::node_of(told, source, config_limits{}.depth);
  config_report unused;
  config_reader reader(root, "", unused);
  return read_lora(reader, model);
}

/// PEFT's configuration of adapters beside the model in the folder `base` ("": not known).
[[nodiscard]] inline nlohmann::json to_peft_json(lora_config const& lora, std::string const& base) {
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", base.empty() ? nlohmann::json() : nlohmann::json(base)},
          {"r", lora.rank},
          {"lora_alpha", detail::shortest(lora.alpha)},
          {"lora_dropout", lora.dropout},
          {"use_rslora", lora.rank_stabilised},
          {"target_modules", lora.targets},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"init_lora_weights", true},
          {"inference_mode", true}};
}

}  // namespace mpt
