#include <mpt/config/model/read_lora.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <mpt/config/model/family.hpp>
#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/hf_attention.hpp>
#include <mpt/config/model/linear_layers.hpp>
#include <mpt/yaml/node.hpp>

namespace mpt {
namespace {

/// The distinct last parts of the layers' names in PEFT.
[[nodiscard]] std::vector<std::string> distinct_endings(model_config const& model,
                                                        std::vector<linear_layer> const& layers) {
  std::vector<std::string> out;
  for (auto const& layer : layers) {
    auto const name = peft_layer_name(model, layer.name);
    auto ending = name.substr(name.rfind('.') + 1);
    if (std::ranges::find(out, ending) == out.end()) out.push_back(std::move(ending));
  }
  return out;
}

/// The targets of ours that PEFT's `targets` name.
[[nodiscard]] std::vector<std::string> translated(model_config const& model,
                                                  std::span<std::string_view const> targets) {
  std::vector<std::string> out;
  if (find_family(model.family) == nullptr) return {targets.begin(), targets.end()};
  for (auto const target : targets)
    for (auto& name : targets_from_peft(model, target))
      if (std::ranges::find(out, name) == out.end()) out.push_back(std::move(name));
  return out;
}

[[nodiscard]] std::vector<std::string> read_targets(config_reader& reader,
                                                    model_config const& model) {
  constexpr std::string_view key = "target_modules";
  auto const layers = linear_layers(model);
  auto const endings = distinct_endings(model, layers);
  config_node const* const node = reader.raw(key);
  if (node == nullptr) {  // PEFT's default
    if (auto const* const family = find_family(model.family))
      return translated(model, family->default_targets);
    reader.check(key, model.attn.fused_qkv, "missing; name layers, or use all-linear");
    return {"Wqkv"};
  }
  if (node->is_scalar() && node->text == "all-linear")
    return translated(model, std::vector<std::string_view>(endings.begin(), endings.end()));
  reader.check(key, node->is_list() && !node->items.empty(),
               "expected a list of layers' names, or all-linear, found ", describe(*node));
  std::vector<std::string> out;
  for (auto const& item : node->items) {
    auto const found = targets_from_peft(model, item.text);
    std::string names;
    for (auto const& name : endings) names += (names.empty() ? "" : ", ") + name;
    parallel::require(item.is_scalar() && !found.empty(), item.location, ": ",
                      reader.full_name(key), ": '", printable(item.text),
                      "' is no linear layer of this model's blocks; it has ", names);
    if (find_family(model.family) == nullptr)
      out.push_back(item.text);
    else
      out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

/// Whether the family stores its linear layers as [in, out].
[[nodiscard]] bool is_stored_transposed(model_config const& model) {
  auto const* const family = find_family(model.family);
  if (family == nullptr) return false;
  auto const stored = stored_names_of(*family, "transformer.blocks.0.attn.out_proj");
  return stored && stored->form == tensor_form::transposed;
}

/// Whether `name` can be a layer's name or the end of one, and is not a regular expression.
[[nodiscard]] bool is_layer_name(std::string_view name) {
  bool is_plain = !name.empty();
  for (char const c : name)
    is_plain = is_plain && (c == '_' || c == '.' || (c >= '0' && c <= '9') ||
                            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
  return is_plain;
}

/// Throws unless every exception names an adapted layer and no layer has two different values (PEFT
/// takes the first in the file).
template <class T>
void check_exceptions(config_reader const& reader, std::string_view key,
                      std::vector<layer_exception<T>> const& exceptions, lora_config const& lora,
                      model_config const& model, std::vector<linear_layer> const& layers) {
  for (auto const& exception : exceptions) {
    bool found = false;
    for (auto const& layer : layers) {
      if (!is_adapted(lora, layer.name) || !is_target(exception.layers, layer.name)) continue;
      found = true;
      auto const effective_value = value_for(exceptions, layer.name, exception.value);
      reader.check(key, effective_value == exception.value, "gives ",
                   peft_layer_name(model, layer.name), " two values, ", effective_value, " and ",
                   exception.value, "; name each layer once");
    }
    reader.check(key, found, "'", printable(exception.layers),
                 "' names no layer with an adapter, as target_modules does; regular expressions "
                 "are not read");
  }
}

/// Reads rank_pattern or alpha_pattern: a mapping from layers' names to values that replace r or
/// lora_alpha.
template <class T>
[[nodiscard]] std::vector<layer_exception<T>> read_exceptions(
    config_reader& reader, std::string_view key, lora_config const& lora, model_config const& model,
    std::vector<linear_layer> const& layers) {
  constexpr bool is_rank = std::is_integral_v<T>;
  std::vector<layer_exception<T>> out;
  config_node const* const node = reader.raw(key);
  if (node == nullptr) return out;
  reader.check(key, node->is_map(), "expected a mapping from layers' names to numbers, found ",
               describe(*node));
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    auto const& name = node->keys[i].name;
    auto const& item = node->items[i];
    std::optional<T> value;
    if (item.is_scalar() && !item.is_string) {
      if constexpr (is_rank)
        value = parse_integer(item.text);
      else
        value = parse_number(item.text);
    }
    bool const is_valid = value && *value > 0 && (!is_rank || *value <= T{largest_d_model});
    parallel::require(is_valid, item.location, ": ", reader.full_name(key), ".", printable(name),
                      ": expected ", is_rank ? "a rank from 1 to " : "a number above 0",
                      is_rank ? std::to_string(largest_d_model) : "", ", found ", describe(item));
    auto found = targets_from_peft(model, name);
    std::erase_if(found, [&](std::string const& target) {  // layers that have no adapter
      return std::ranges::none_of(layers, [&](linear_layer const& layer) {
        return is_adapted(lora, layer.name) && is_target(target, layer.name);
      });
    });
    if (find_family(model.family) == nullptr || found.empty())
      out.push_back({name, value.value_or(T{1})});
    else
      for (auto const& target : found) out.push_back({target, value.value_or(T{1})});
  }
  check_exceptions(reader, key, out, lora, model, layers);
  return out;
}

/// Keys of an adapter that are read.
constexpr std::string_view adapter_keys[] = {
    "peft_type",  "task_type",      "r",    "lora_alpha",   "lora_dropout",
    "use_rslora", "target_modules", "bias", "rank_pattern", "alpha_pattern"};

/// Keys that do not change the results of a trained adapter: its initialisation, details of methods
/// that another key turns on, settings that PEFT ignores for linear layers, and names.
constexpr std::string_view keys_without_effect[] = {"base_model_name_or_path",
                                                    "revision",
                                                    "inference_mode",
                                                    "auto_mapping",
                                                    "peft_version",
                                                    "megatron_core",
                                                    "qalora_group_size",
                                                    "fan_in_fan_out",
                                                    "loftq_config",
                                                    "eva_config",
                                                    "corda_config",
                                                    "lora_ga_config",
                                                    "layers_pattern"};

/// Advice for an adapter that is not read but that PEFT can merge into its model.
constexpr std::string_view advice_merge_by_peft =
    "merge it into its model by PEFT (PeftModel.from_pretrained(model, folder)"
    ".merge_and_unload().save_pretrained(other)) and use the merged model";

/// Advice for an adapter whose initialisation changed the model's own weights.
constexpr std::string_view advice_save_as_lora =
    "save it again where it was trained: as plain LoRA (PEFT's "
    "save_pretrained(folder, path_initial_model_for_weight_conversion=...)), or merged into its "
    "model";

/// Whether PEFT can repeat the change that this initialisation made to the model's weights when it
/// loads the adapter, so that it can merge the adapter into the model.
[[nodiscard]] bool is_reproducible_initialisation(nlohmann::json const& init_lora_weights) {
  return init_lora_weights == "pissa" || init_lora_weights == "olora";
}

/// The reason why an adapter with this setting is not plain LoRA (W + B A); empty if it is.
[[nodiscard]] std::string_view unsupported_reason(std::string_view key,
                                                  nlohmann::json const& value) {
  constexpr std::string_view unknown_key =
      "is not supported, and without it the adapter's results would differ";
  auto const text = value.is_string() ? value.get<std::string>() : std::string();
  if (key == "peft_type") return text == "LORA" ? "" : "adapters of this kind are not read";
  if (key == "task_type")
    return text == "CAUSAL_LM" ? "" : "it is not an adapter of a language model";
  if (key == "bias") return text == "none" ? "" : "its biases were trained too";
  if (key == "init_lora_weights") {
    if (value.is_boolean() || text == "gaussian" || text == "orthogonal" || text == "eva")
      return "";  // these only choose the initial A and B
    return "its initialisation changed the model's own weights, and it fits only those";
  }
  if (key == "target_modules" && value.is_string() && text != "all-linear")
    return "it names layers by a regular expression, which is not read";
  if ((key == "rank_pattern" || key == "alpha_pattern") && value.is_object())
    for (auto const& [layers, unused] : value.items())
      if (!is_layer_name(layers))
        return "it names layers by a regular expression, which is not read";
  bool const known = std::ranges::find(adapter_keys, key) != std::end(adapter_keys) ||
                     std::ranges::find(keys_without_effect, key) != std::end(keys_without_effect);
  return known ? "" : unknown_key;
}

/// Throws where an adapter has layers outside the blocks. PEFT merges a head that is tied into the
/// embedding, too, which makes another model.
void require_layers_of_blocks(nlohmann::json const& layers, model_config const& model,
                              std::string const& source) {
  static constexpr std::array<std::string_view, 7> outside{
      "lm_head", "embed_tokens", "wte", "wpe", "embed_in", "embed_out", "word_embeddings"};
  if (!layers.is_array()) return;
  for (auto const& layer : layers) {
    auto const name = layer.is_string() ? layer.get<std::string>() : std::string();
    bool const is_outside =
        std::ranges::find(outside, name.substr(name.rfind('.') + 1)) != outside.end();
    parallel::require(!is_outside, source, ": target_modules: ", printable(layer.dump()),
                      " is outside the blocks, and adapters of such layers are not read; ",
                      model.tie_word_embeddings
                          ? "train it without them, since PEFT cannot merge an adapter of a head "
                            "or an embedding into a model that ties them"
                          : advice_merge_by_peft);
  }
}

[[nodiscard]] bool is_feed_forward(std::string_view peft_name) {
  auto const ending = peft_name.substr(peft_name.rfind('.') + 1);
  return ending == "gate_proj" || ending == "up_proj" || ending == "down_proj";
}

/// The names, without the model's prefix, of the weights of dense feed-forward layers with an
/// adapter beside layers of experts, as PEFT's target_parameters has them.
[[nodiscard]] std::vector<std::string> weights_beside_experts(lora_config const& lora,
                                                              model_config const& model) {
  std::vector<std::string> out;
  if (!model.experts || find_family(model.family) == nullptr) return out;
  for (auto const& layer : linear_layers(model)) {
    auto const name = peft_layer_name(model, layer.name);
    if (is_adapted(lora, layer.name) && is_feed_forward(name))
      out.push_back(name.substr(name.find("layers.")) + ".weight");
  }
  return out;
}

/// The layers that `json` has among target_parameters; empty where it has none, or others.
[[nodiscard]] std::set<std::string> layers_beside_experts(nlohmann::json const& json) {
  auto const found = json.find("target_parameters");
  std::set<std::string> out;
  if (found == json.end() || !found->is_array()) return out;
  for (auto const& parameter : *found) {
    auto name = parameter.is_string() ? parameter.get<std::string>() : std::string();
    if (!name.ends_with(".weight")) return {};
    name.resize(name.size() - std::string_view(".weight").size());
    if (!is_feed_forward(name)) return {};
    out.insert(name.substr(name.rfind('.') + 1));
  }
  return out;
}

}  // namespace

lora_config read_lora(config_reader& reader, model_config const& model) {
  lora_config out;
  auto const type = reader.get<std::string>("peft_type", "LORA");
  reader.check("peft_type", type == "LORA" || type == "lora", "'", printable(type),
               "' is not supported; use LORA");
  reader.refuse_unsupported("task_type", "use CAUSAL_LM", {"CAUSAL_LM"});
  out.rank = reader.get("r", out.rank);
  reader.check("r", out.rank >= 1 && out.rank <= largest_d_model, "must be from 1 to ",
               largest_d_model, ", found ", out.rank);
  out.alpha = reader.get("lora_alpha", out.alpha);
  reader.check("lora_alpha", out.alpha > 0, "must be above 0, found ", out.alpha);
  out.dropout = reader.get("lora_dropout", out.dropout);
  reader.check("lora_dropout", out.dropout >= 0 && out.dropout < 1,
               "is a dropout probability from 0 to below 1, found ", out.dropout);
  out.rank_stabilised = reader.get("use_rslora", out.rank_stabilised);
  out.targets = read_targets(reader, model);
  auto const layers = linear_layers(model);
  out.rank_pattern = read_exceptions<std::int64_t>(reader, "rank_pattern", out, model, layers);
  out.alpha_pattern = read_exceptions<double>(reader, "alpha_pattern", out, model, layers);
  reader.refuse_unsupported("bias", "biases are not trained: use none", {"none"});
  reader.refuse_unsupported("init_lora_weights", "A starts uniform and B at zero: use true",
                            {"true"});
  for (std::string_view const key : {"use_dora", "use_qalora", "use_bdlora", "lora_bias"})
    reader.refuse_unsupported(key, "use false", {"false"});
  if (is_stored_transposed(model))  // as PEFT's own adapters of this family say
    reader.accept_without_effect("fan_in_fan_out", "the family's matrices decide it");
  else
    reader.refuse_unsupported("fan_in_fan_out", "use false", {"false"});
  for (std::string_view const key :
       {"modules_to_save", "layers_to_transform", "layers_pattern", "layer_replication",
        "exclude_modules", "target_parameters", "trainable_token_indices"})
    reader.refuse_unsupported(key,
                              "leave it out; target_modules names the layers that have adapters");
  for (std::string_view const key :
       {"base_model_name_or_path", "revision", "inference_mode", "auto_mapping", "peft_version"})
    reader.accept_without_effect(key, "the adapter belongs to the model of this YAML");
  reader.finish();
  return out;
}

bool is_adapter_folder(std::filesystem::path const& folder) {
  std::error_code code;  // an unreadable folder is no adapter
  return std::filesystem::exists(folder / adapter_config_name, code);
}

nlohmann::json read_adapter_json(std::filesystem::path const& folder) {
  auto const file = folder / adapter_config_name;
  auto json = parallel::checkpoint::parse_json(read_small_file(file), file.string());
  parallel::require(json.is_object(), file.string(), ": must be a JSON object");
  return json;
}

named_model adapted_name(nlohmann::json const& json, std::string const& source) {
  named_model out;
  if (auto const name = json.find("base_model_name_or_path");
      name != json.end() && name->is_string())
    out.name = *name;
  auto const revision = json.find("revision");
  if (revision == json.end() || revision->is_null()) return out;
  parallel::require(revision->is_string(), source, ": revision: expected a branch, a tag or a ",
                    "commit of the model in base_model_name_or_path, or null, found ",
                    printable(revision->dump()));
  out.revision = *revision;
  return out;
}

lora_config from_peft_json(nlohmann::json const& json, model_config const& model,
                           std::string const& source) {
  auto settings = nlohmann::json::object();  // only the keys that are present
  auto const beside_experts = layers_beside_experts(json);
  for (auto const& [key, value] : json.items()) {
    if (key == "target_parameters" && !beside_experts.empty()) continue;
    if (value.is_null() || value == false || (value.is_structured() && value.empty())) continue;
    if (key == "target_modules") require_layers_of_blocks(value, model, source);
    auto const reason = unsupported_reason(key, value);
    parallel::require(reason.empty(), source, ": ", printable(key), " is ", printable(value.dump()),
                      ": ", reason, "; ",
                      key == "init_lora_weights" && !is_reproducible_initialisation(value)
                          ? advice_save_as_lora
                          : advice_merge_by_peft);
    if (std::ranges::find(adapter_keys, key) != std::end(adapter_keys)) settings[key] = value;
  }
  for (auto const& layer : beside_experts)
    if (!settings["target_modules"].is_string()) settings["target_modules"].push_back(layer);
  auto const root = detail::node_of(settings, source, config_limits{}.depth);
  config_report report;
  config_reader reader(root, "", report);
  auto out = read_lora(reader, model);
  if (beside_experts.empty()) return out;
  auto const weights = weights_beside_experts(out, model);
  auto const named = json.at("target_parameters").get<std::set<std::string>>();
  parallel::require(std::set(weights.begin(), weights.end()) == named, source,
                    ": target_parameters is ", printable(json.at("target_parameters").dump()),
                    ", but these layers are all or none adapted here: ",
                    nlohmann::json(weights).dump(), "; ", advice_merge_by_peft);
  return out;
}

nlohmann::json to_peft_file(lora_config const& lora, named_model const& base,
                            model_config const& model) {
  auto out = to_peft_json(lora, base, model);
  auto const weights = weights_beside_experts(lora, model);
  if (weights.empty()) return out;
  auto& targets = out["target_modules"];
  std::erase_if(targets.get_ref<nlohmann::json::array_t&>(), [](nlohmann::json const& target) {
    return is_feed_forward(target.get<std::string>());
  });
  out["target_parameters"] = weights;
  return out;
}

nlohmann::json to_peft_json(lora_config const& lora, named_model const& base,
                            model_config const& model) {
  std::vector<std::string> targets;
  for (auto const& target : lora.targets) targets.push_back(target_to_peft(model, target));
  nlohmann::json out = {
      {"peft_type", "LORA"},
      {"task_type", "CAUSAL_LM"},
      {"base_model_name_or_path", base.name.empty() ? nlohmann::json() : nlohmann::json(base.name)},
      {"revision", base.revision == "main" ? nlohmann::json() : nlohmann::json(base.revision)},
      {"r", lora.rank},
      {"lora_alpha", detail::json_number(lora.alpha)},
      {"lora_dropout", lora.dropout},
      {"use_rslora", lora.rank_stabilised},
      {"target_modules", targets},
      {"bias", "none"},
      {"fan_in_fan_out", is_stored_transposed(model)},
      {"init_lora_weights", true},
      {"inference_mode", true}};
  for (auto const& [layers, rank] : lora.rank_pattern)
    out["rank_pattern"][target_to_peft(model, layers)] = rank;
  for (auto const& [layers, alpha] : lora.alpha_pattern)
    out["alpha_pattern"][target_to_peft(model, layers)] = detail::json_number(alpha);
  return out;
}

}  // namespace mpt
