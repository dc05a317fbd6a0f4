#include <mpt/config/model/family.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include <mpt/config/model/hf.hpp>
#include <mpt/yaml/node.hpp>

namespace mpt {
namespace {

constexpr std::string_view block_prefix = "transformer.blocks.";

/// Fields of a config.json that change no weight and no result here: those of transformers'
/// PretrainedConfig, settings of generation and of heads that are not read, and what programs note.
constexpr std::string_view general_keys[] = {"_attn_implementation_autoset",
                                             "_name_or_path",
                                             "architectures",
                                             "auto_map",
                                             "bos_token_id",
                                             "chunk_size_feed_forward",
                                             "classifier_dropout",
                                             "do_sample",
                                             "dtype",
                                             "eos_token_id",
                                             "finetuning_task",
                                             "gradient_checkpointing",
                                             "id2label",
                                             "is_causal",
                                             "is_decoder",
                                             "is_encoder_decoder",
                                             "label2id",
                                             "max_length",
                                             "model_type",
                                             "n_ctx",
                                             "output_attentions",
                                             "output_hidden_states",
                                             "output_past",
                                             "pad_token_id",
                                             "pretraining_tp",
                                             "problem_type",
                                             "quantization_config",
                                             "return_dict",
                                             "summary_activation",
                                             "summary_first_dropout",
                                             "summary_proj_to_labels",
                                             "summary_type",
                                             "summary_use_proj",
                                             "task_specific_params",
                                             "temperature",
                                             "tokenizer_class",
                                             "top_k",
                                             "top_p",
                                             "torch_dtype",
                                             "transformers_version",
                                             "unsloth_fixed",
                                             "unsloth_version",
                                             "use_cache"};

[[nodiscard]] bool is_known(family_form const& form, std::string const& key) {
  return form.known_keys().contains(key) ||
         std::ranges::find(general_keys, key) != std::end(general_keys);
}

/// Replaces fields of `json` by those of `overrides`; objects are merged field by field.
void merge_fields(nlohmann::json& json, nlohmann::json const& overrides) {
  for (auto const& [key, value] : overrides.items()) {
    auto& field = json[key];
    if (field.is_object() && value.is_object())
      merge_fields(field, value);
    else
      field = value;
  }
}

/// The keys under which a file has its section of rotary settings; the first counts.
constexpr std::array<char const*, 2> rotary_sections{"rope_scaling", "rope_parameters"};

/// The section of the rotary settings; null where there is none with settings.
[[nodiscard]] char const* rotary_section_of(nlohmann::json const& json) {
  for (char const* const key : rotary_sections)
    if (auto const found = json.find(key);
        found != json.end() && found->is_object() && !found->empty())
      return key;
  return nullptr;
}

/// Makes way for a rotary setting of `overrides`, which a file has as `key` in its section or as
/// `outer_key` next to it, and names it `outer_key` there.
void prepare_rotary_setting(nlohmann::json& json, nlohmann::json& overrides, char const* key,
                            std::string const& outer_key) {
  if (key != outer_key && overrides.contains(key) && !overrides.contains(outer_key)) {
    overrides[outer_key] = overrides[key];
    overrides.erase(key);
  }
  char const* const section = rotary_section_of(overrides);
  bool const in_section = section != nullptr && overrides[section].contains(key);
  if (!in_section && !overrides.contains(outer_key)) return;
  json.erase(key);
  if (in_section) json.erase(outer_key);
  if (char const* const stored = rotary_section_of(json); stored != nullptr && !in_section)
    json[stored].erase(key);
}

/// Prepares the rotary settings of a file and of `overrides` to be merged: one section under one
/// name, of whichever generation of transformers, and one place for each setting. A section that is
/// overridden by none keeps its base frequency.
void prepare_rotary(nlohmann::json& json, nlohmann::json& overrides, rotary_keys const& keys) {
  constexpr char const* fraction = "partial_rotary_factor";
  prepare_rotary_setting(json, overrides, "rope_theta", std::string(keys.theta));
  prepare_rotary_setting(json, overrides, fraction,
                         keys.fraction.empty() ? fraction : std::string(keys.fraction));
  prepare_rotary_setting(json, overrides, trained_positions_key.data(),
                         std::string(trained_positions_key));
  char const* const stored = rotary_section_of(json);
  if (stored == nullptr) return;
  for (char const* const key : rotary_sections) {
    auto const found = overrides.find(key);
    if (found == overrides.end()) continue;
    auto const value = *found;
    overrides.erase(key);
    auto& section = json[stored];
    if (value.is_object() && !value.empty()) {
      if (value.contains("type") || value.contains("rope_type"))
        for (char const* const type : {"type", "rope_type"}) section.erase(type);
      overrides[stored] = value;
    } else if (value.is_null() || value.is_object()) {
      for (auto const& [inner, outer] :
           {std::pair("rope_theta", keys.theta), std::pair(fraction, keys.fraction)})
        if (section.contains(inner) && !outer.empty()) json[std::string(outer)] = section[inner];
      json.erase(stored);
    } else {
      overrides[stored] = value;  // refused by its type
    }
    return;
  }
}

/// The file's JSON with `overrides`, an object or null. Lists of what the layers are keep their
/// first items for fewer layers.
[[nodiscard]] nlohmann::json with_overrides(nlohmann::json json, nlohmann::json overrides,
                                            rotary_keys const& keys) {
  if (!overrides.is_object()) return json;
  prepare_rotary(json, overrides, keys);
  merge_fields(json, overrides);
  auto const layers = json.find("num_hidden_layers");
  if (layers == json.end() || !layers->is_number_integer() || *layers < 0) return json;
  for (char const* const key : {"layer_types", "no_rope_layers"}) {
    auto const list = json.find(key);
    if (list != json.end() && list->is_array() && !overrides.contains(key) &&
        *layers < list->size())
      list->erase(list->begin() + layers->get<std::ptrdiff_t>(), list->end());
  }
  return json;
}

/// Fails for a key of `overrides` that the family does not have.
void require_known_keys(model_family const& family, family_form const& form,
                        nlohmann::json const& overrides, std::string const& source) {
  for (auto const& [key, unused] : overrides.items()) {
    if (is_known(form, key)) continue;
    std::string advice;
    for (auto const& known : form.known_keys())
      advice += (advice.empty() ? "; its fields are " : ", ") + known;
    parallel::fail(source, ": ", printable(key), ": the family ", family.model_type,
                   " has no such field", advice);
  }
}

/// The classes of transformers that hold a family's model, with its head and without.
[[nodiscard]] std::array<std::string, 2> classes_of(model_family const& family) {
  auto const name = std::string(family.architecture);
  auto const end = std::min(name.find("ForCausalLM"), name.find("LMHeadModel"));
  return {name, name.substr(0, end) + "Model"};
}

/// Puts the settings of `model` that differ from those of the file that it was read from into that
/// file's form. `written` are all settings of the model.
[[nodiscard]] nlohmann::json with_changes(model_family const& family, nlohmann::json const& written,
                                          std::string const& stored) {
  auto out = nlohmann::json::parse(stored);
  auto unchanged_model = read_family_json(family, out, "the stored config.json");
  family_form unchanged;
  family.describe(unchanged, unchanged_model);
  auto const has_changed = [&](std::string const& key) {
    return written.contains(key) &&
           (!unchanged.json().contains(key) || unchanged.json()[key] != written[key]);
  };
  std::set<std::string> const rotary{"rope_scaling",
                                     "rope_parameters",
                                     "rope_theta",
                                     "partial_rotary_factor",
                                     "rope_local_base_freq",
                                     std::string(trained_positions_key),
                                     std::string(family.rotary.theta),
                                     std::string(family.rotary.fraction)};
  bool const rotates_otherwise = std::ranges::any_of(rotary, has_changed);
  if (rotates_otherwise)
    for (auto const& key : rotary) out.erase(key);
  for (auto const& [key, value] : written.items())
    if (has_changed(key) || (rotates_otherwise && rotary.contains(key))) out[key] = value;
  out.erase("auto_map");  // its code does not go with the export
  if (out.contains("dtype")) {
    out["dtype"] = written["torch_dtype"];
    out.erase("torch_dtype");
  }
  return out;
}

}  // namespace

std::string with_number(std::string_view pattern, std::string_view number) {
  auto const star = pattern.find('*');
  if (star == std::string_view::npos) return std::string(pattern);
  return parallel::concat(pattern.substr(0, star), number, pattern.substr(star + 1));
}

std::string family_names() {
  std::string out = "mpt";
  for (auto const* const family : model_families())
    out += parallel::concat(", ", family->model_type);
  return out;
}

model_family const* find_family(std::string_view model_type) {
  for (auto const* const family : model_families())
    if (family->model_type == model_type) return family;
  return nullptr;
}

void require_model_class(nlohmann::json const& json, std::string const& model_type,
                         std::string const& source) {
  auto const named = json.value("architectures", nlohmann::json());
  for (auto const* const family : model_families())
    for (auto const& name : classes_of(*family))
      parallel::require(family->model_type == model_type || !named.is_array() ||
                            std::ranges::find(named, nlohmann::json(name)) == named.end(),
                        source, ": architectures: names ", name, ", a ", family->model_type,
                        ", but model_type is ", model_type, "; correct the one that is wrong");
  auto const causal = json.find("is_causal");
  parallel::require(causal == json.end() || *causal == true, source, ": is_causal: is ",
                    causal == json.end() ? "" : printable(causal->dump()),
                    "; a model whose tokens see later ones is not supported");
}

model_config read_family_json(model_family const& family, nlohmann::json json,
                              std::string const& source, nlohmann::json const& overrides) {
  parallel::require(json.is_object(), source, ": expected a JSON object, found ",
                    std::string_view(json.type_name()));
  json = with_overrides(std::move(json), overrides, family.rotary);
  model_config model;
  model.family = family.model_type;
  model.stored.text = json.dump();
  require_model_class(json, model.family, source);
  family_form form(json, source);
  form.require_off(
      "quantization_config",
      "quantised weights are not read; load the model with transformers, dequantise it, and "
      "save it as bfloat16");
  family.describe(form, model);
  if (overrides.is_object()) require_known_keys(family, form, overrides, source);
  check_model(model, source + ": in the terms of an MPT, ");
  return model;
}

std::vector<std::string> family_notes(model_config const& model, std::string const& source) {
  auto const* const family = find_family(model.family);
  if (family == nullptr || model.stored.text.empty()) return {};
  family_form form(nlohmann::json::parse(model.stored.text), source);
  model_config reread;
  family->describe(form, reread);
  auto notes = form.notes();
  std::vector<std::string> unread;
  for (auto const& [key, unused] : form.json().items())
    if (!is_known(form, key)) unread.push_back(printable(key));
  for (auto const& key : form.unread_section_keys()) unread.push_back(printable(key));
  if (!unread.empty())
    notes.push_back(
        parallel::concat(source, ": without effect, since transformers' ", family->architecture,
                         " has no such fields: ", fmt::format("{}", fmt::join(unread, ", "))));
  if (form.json().contains("auto_map"))
    notes.push_back(parallel::concat(source,
                                     ": auto_map: the folder's own code is never run; its "
                                     "model is read as transformers' ",
                                     family->architecture));
  return notes;
}

void separate_projections(model_config& model) {
  auto const* const family = find_family(model.family);
  if (family == nullptr) return;
  auto const fused = stored_names_of(*family, "transformer.blocks.0.attn.Wqkv");
  if (fused && fused->names.size() > 1) model.attn.fused_qkv = false;
}

nlohmann::json to_family_json(model_family const& family, model_config const& model,
                              std::string_view dtype) {
  auto written_model = model;
  family_form form;
  form.put("architectures", {family.architecture});
  form.put("model_type", family.model_type);
  form.put("torch_dtype", dtype);
  family.describe(form, written_model);
  auto const json = model.stored.text.empty()
                        ? form.json()
                        : with_changes(family, form.json(), model.stored.text);
  auto reread = read_family_json(family, json, "the written config.json");
  reread.attn.fused_qkv = model.attn.fused_qkv;  // the family's tensors are the same
  auto const difference = difference_of(model, reread);
  parallel::require(!difference.has_value(), "the family ", family.model_type,
                    " has no field for this model's ", difference ? difference->name : "", ", ",
                    difference ? difference->first : "");
  return json;
}

std::optional<stored_names> stored_names_of(model_family const& family,
                                            std::string_view parameter) {
  std::string_view number;
  if (parameter.starts_with(block_prefix)) {
    number = parameter.substr(block_prefix.size());
    number = number.substr(0, number.find('.'));
  }
  for (auto const& stored : family.layers) {
    auto const layer = with_number(stored.layer, number);
    if (!parameter.starts_with(layer)) continue;
    auto const ending = parameter.substr(layer.size());
    if (!ending.empty() && ending.front() != '.') continue;
    stored_names out{.names = {}, .form = stored.form};
    for (auto const name : stored.names)
      if (!name.empty()) out.names.push_back(with_number(name, number).append(ending));
    return out;
  }
  return std::nullopt;
}

}  // namespace mpt
