#include <mpt/config/model/family.hpp>

#include <algorithm>
#include <array>

#include <mpt/config/model/hf.hpp>
#include <mpt/yaml/node.hpp>

namespace mpt {
namespace {

constexpr std::string_view block_prefix = "transformer.blocks.";

/// `pattern` with the number of a block in place of its star.
[[nodiscard]] std::string in_block(std::string_view pattern, std::string_view number) {
  auto const star = pattern.find('*');
  if (star == std::string_view::npos) return std::string(pattern);
  return parallel::concat(pattern.substr(0, star), number, pattern.substr(star + 1));
}

/// Fields of every config.json that change no weight and no result here.
constexpr std::string_view general_keys[] = {"use_cache",     "torch_dtype",         "dtype",
                                             "bos_token_id",  "eos_token_id",        "pad_token_id",
                                             "architectures", "transformers_version"};

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

/// Prepares the file's rotary settings for `overrides`: a new section of them replaces that of the
/// file, of whichever generation of transformers, and keeps its base frequency; a new base
/// frequency next to the section replaces the one in it.
void prepare_rotary(nlohmann::json& json, nlohmann::json const& overrides) {
  constexpr std::array<char const*, 2> sections{"rope_scaling", "rope_parameters"};
  bool const replaces_section = overrides.contains(sections[0]) || overrides.contains(sections[1]);
  for (char const* const section : sections) {
    auto const found = json.find(section);
    if (found == json.end() || !found->is_object()) continue;
    if (overrides.contains("rope_theta") || overrides.contains("rotary_emb_base"))
      found->erase("rope_theta");
    if (!replaces_section) continue;
    for (char const* const key : {"rope_theta", "partial_rotary_factor"})
      if (found->contains(key) && !json.contains(key)) json[key] = (*found)[key];
    json.erase(section);
  }
}

/// Fails for a key of `overrides` that the family does not have.
void require_known_keys(model_family const& family, family_form const& form,
                        nlohmann::json const& overrides, std::string const& source) {
  for (auto const& [key, unused] : overrides.items()) {
    if (form.known_keys().contains(key) ||
        std::ranges::find(general_keys, key) != std::end(general_keys))
      continue;
    std::string advice;
    for (auto const& known : form.known_keys())
      advice += (advice.empty() ? "; its fields are " : ", ") + known;
    parallel::fail(source, ": ", printable(key), ": the family ", family.model_type,
                   " has no such field", advice);
  }
}

}  // namespace

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

model_config read_family_json(model_family const& family, nlohmann::json json,
                              std::string const& source, nlohmann::json const& overrides) {
  parallel::require(json.is_object(), source, ": expected a JSON object, found ",
                    std::string_view(json.type_name()));
  if (overrides.is_object()) {
    prepare_rotary(json, overrides);
    merge_fields(json, overrides);
  }
  model_config model;
  model.family = family.model_type;
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
  auto reread = read_family_json(family, form.json(), "the written config.json");
  reread.attn.fused_qkv = model.attn.fused_qkv;  // the family's tensors are the same
  auto const difference = difference_of(model, reread);
  parallel::require(!difference.has_value(), "the family ", family.model_type,
                    " has no field for this model's ", difference ? difference->name : "", ", ",
                    difference ? difference->first : "");
  return form.json();
}

std::optional<stored_names> stored_names_of(model_family const& family,
                                            std::string_view parameter) {
  std::string_view number;
  if (parameter.starts_with(block_prefix)) {
    number = parameter.substr(block_prefix.size());
    number = number.substr(0, number.find('.'));
  }
  for (auto const& stored : family.layers) {
    auto const layer = in_block(stored.layer, number);
    if (!parameter.starts_with(layer)) continue;
    auto const ending = parameter.substr(layer.size());
    if (!ending.empty() && ending.front() != '.') continue;
    stored_names out{.names = {}, .form = stored.form};
    for (auto const name : stored.names)
      if (!name.empty()) out.names.push_back(in_block(name, number).append(ending));
    return out;
  }
  return std::nullopt;
}

}  // namespace mpt
