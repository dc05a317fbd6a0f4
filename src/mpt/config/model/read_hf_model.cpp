#include <mpt/config/model/read_hf_model.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/model/family.hpp>
#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/read_model.hpp>
#include <mpt/yaml/node.hpp>

namespace mpt {
namespace {

/// Merges the members of `overrides` into `base`; nested mappings are merged member by member.
void merge_members(config_node& base, config_node const& overrides) {
  for (std::size_t i = 0; i < overrides.keys.size(); ++i) {
    config_node* const member = base.find(overrides.keys[i].name);
    if (member != nullptr && member->is_map() && overrides.items[i].is_map())
      merge_members(*member, overrides.items[i]);
    else
      base.set(overrides.keys[i], overrides.items[i]);
  }
}

/// The model of the folder's config.json with config_overrides applied.
[[nodiscard]] model_config read_overridden(config_reader& reader,
                                           std::filesystem::path const& folder) {
  auto const base = read_hf_config(folder);
  config_node const* const overrides = reader.raw("config_overrides");
  if (overrides == nullptr) return base.model;
  reader.check("config_overrides", overrides->is_map(), "expected a mapping, found ",
               describe(*overrides));
  auto json = to_hf_json(base.model, base.dtype);
  for (char const* const key : {"architectures", "auto_map", "model_type", "torch_dtype",
                                "layer_norm_epsilon", "use_cache"})
    json.erase(key);  // keys of the file, not of the model
  json["attn_config"].erase("attn_impl");
  config_node merged =
      detail::node_of(json, (folder / "config.json").string(), config_limits{}.depth);
  merged.location = overrides->location;
  merge_members(merged, *overrides);
  auto const prefix = reader.full_name("config_overrides");
  config_reader model_reader(merged, prefix, reader.report());
  auto const ignored_before = reader.report().ignored.size();
  auto model = read_model(model_reader);
  model_reader.finish();
  std::vector<std::string> overridden_names;
  for_each_leaf(*overrides, prefix,
                [&](auto const& name, auto&&...) { overridden_names.push_back(name); });
  auto& ignored = reader.report().ignored;
  auto const first_new = ignored.begin() + static_cast<std::ptrdiff_t>(ignored_before);
  ignored.erase(
      std::remove_if(first_new, ignored.end(),  // keys of the folder's file are not reported
                     [&](ignored_key const& key) {
                       return std::ranges::none_of(overridden_names, [&](auto const& name) {
                         return name == key.name || name.starts_with(key.name + '.');
                       });
                     }),
      ignored.end());
  return model;
}

/// Fails with the reason unless the folder holds a config.json.
void require_config(config_reader const& reader, std::string const& name,
                    std::filesystem::path const& folder) {
  constexpr std::string_view key = "pretrained_model_name_or_path";
  std::error_code code;  // an unreadable folder counts as absent
  if (std::filesystem::exists(folder / "config.json", code)) return;
  reader.check(key, !std::filesystem::exists(folder, code), "'", printable(folder.string()),
               "' holds no config.json; give a Hugging Face folder of a model");
  reader.fail(key, "'", printable(folder.string()), "' is no folder on this machine; ",
              mirror_advice(reader.full_name(key), name));
}

/// The model in a folder of a family, its config.json changed by config_overrides.
[[nodiscard]] model_config read_family_model(config_reader& reader, model_family const& family,
                                             nlohmann::json const& json,
                                             std::filesystem::path const& file) {
  config_node const* const overrides = reader.raw("config_overrides");
  auto source = file.string();
  nlohmann::json changes;
  if (overrides != nullptr) {
    reader.check("config_overrides", overrides->is_map(), "expected a mapping, found ",
                 describe(*overrides));
    source += parallel::concat(" with ", reader.full_name("config_overrides"), " (",
                               overrides->location, ")");
    changes = detail::to_json(*overrides);
  }
  auto model = read_family_json(family, json, source, changes);
  for (auto& note : family_notes(model, source)) reader.report().notes.push_back(std::move(note));
  return model;
}

/// The model in the folder, of whichever family.
[[nodiscard]] model_config read_folder(config_reader& reader, std::filesystem::path const& folder) {
  auto const file = folder / "config.json";
  auto const json = parallel::checkpoint::parse_json(read_small_file(file), file.string());
  auto const type = json.is_object() ? json.value("model_type", nlohmann::json()) : json;
  auto const* const family =
      type.is_string() ? find_family(type.get_ref<std::string const&>()) : nullptr;
  reader.check("pretrained_model_name_or_path",
               family != nullptr || type == "mpt" || type == remote_model_type, "the model in '",
               printable(folder.string()), "' is of type ", printable(type.dump()),
               "; the families that are trained are ", family_names());
  return family != nullptr ? read_family_model(reader, *family, json, file)
                           : read_overridden(reader, folder);
}

}  // namespace

hf_causal_lm read_hf_causal_lm(config_reader& reader, hub_mirrors const& mirrors) {
  hf_causal_lm out;
  auto const name = reader.required<std::string>("pretrained_model_name_or_path");
  out.folder = mirrored_path(mirrors, name);
  require_config(reader, name, out.folder);
  out.pretrained = reader.get("pretrained", out.pretrained);
  out.model = read_folder(reader, out.folder);
  for (std::string_view const key : {"use_auth_token", "trust_remote_code"})
    reader.accept_without_effect(key, "the folder is on this machine, and its code is never run");
  for (std::string_view const key : {"use_flash_attention_2", "attn_implementation"})
    reader.accept_without_effect(key, "attention has one implementation per device");
  reader.accept_without_effect("init_device", "weights are created on the device that trains them");
  reader.accept_without_effect("use_train_metrics", "training metrics cost nothing here");
  for (std::string_view const key : {"additional_train_metrics", "additional_eval_metrics"})
    reader.refuse_unsupported(key, "loss, perplexity and token accuracy are always measured");
  reader.refuse_unsupported("load_in_8bit", "use false", {"false"});
  return out;
}

}  // namespace mpt
