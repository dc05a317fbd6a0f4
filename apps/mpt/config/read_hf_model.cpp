#include <mpt/config/read_hf_model.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/hf.hpp>
#include <mpt/config/read_model.hpp>
#include <mpt/yaml/small_file.hpp>

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

/// Fails with the reason unless the folder holds an MPT.
void require_mpt(config_reader const& reader, std::string const& name,
                 std::filesystem::path const& folder) {
  constexpr std::string_view key = "pretrained_model_name_or_path";
  std::error_code code;  // an unreadable folder counts as absent
  auto const config = folder / "config.json";
  if (!std::filesystem::exists(config, code)) {
    constexpr std::array<std::string_view, 9> other_families{
        "gpt2", "gpt-", "t5-", "llama", "opt-", "dbrx", "bloom", "mistral", "pythia"};
    std::string short_name = name.substr(name.rfind('/') + 1);  // the whole name without a '/'
    for (char& c : short_name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    for (auto const family : other_families)
      reader.check(key, !short_name.starts_with(family), "'", printable(name),
                   "' is not an MPT, the one kind of model that is trained here; choose an MPT");
    reader.check(key, !std::filesystem::exists(folder, code), "'", printable(folder.string()),
                 "' holds no config.json; give a Hugging Face folder of an MPT");
    reader.fail(key, "'", printable(folder.string()), "' is no folder on this machine; ",
                mirror_advice(reader.full_name(key), name));
  }
  auto const json = parallel::checkpoint::parse_json(read_small_file(config), config.string());
  auto const kind =
      json.is_object() ? json.value("model_type", nlohmann::json()) : nlohmann::json();
  bool const is_mpt = kind == "mpt" || kind == remote_model_type;
  reader.check(key, is_mpt, "the model in '", printable(folder.string()), "' is of type ",
               printable(kind.dump()),
               ", not an MPT, the one kind of model that is trained here; choose an MPT");
}

}  // namespace

hf_causal_lm read_hf_causal_lm(config_reader& reader, hub_mirrors const& mirrors) {
  hf_causal_lm out;
  auto const name = reader.required<std::string>("pretrained_model_name_or_path");
  out.folder = mirrored_path(mirrors, name);
  require_mpt(reader, name, out.folder);
  out.pretrained = reader.get("pretrained", out.pretrained);
  out.model = read_overridden(reader, out.folder);
  for (std::string_view const key : {"use_auth_token", "trust_remote_code"})
    reader.accept_without_effect(key, "the folder is on this machine, and its code is never run");
  for (std::string_view const key : {"use_flash_attention_2", "attn_implementation"})
    reader.accept_without_effect(key, "attention has one implementation per device");
  reader.accept_without_effect("init_device", "weights are created on the device that trains them");
  reader.accept_without_effect("use_train_metrics", "training metrics cost nothing here");
  for (std::string_view const key : {"additional_train_metrics", "additional_eval_metrics"})
    reader.refuse_unsupported(key, "loss, perplexity and token accuracy are always measured");
  reader.refuse_unsupported("load_in_8bit", "use false", {"false"});
  reader.refuse_unsupported("allow_embedding_resizing", "the vocabulary stays as it is: use false",
                            {"false"});
  return out;
}

}  // namespace mpt
