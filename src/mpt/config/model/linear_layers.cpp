#include <mpt/config/model/linear_layers.hpp>

#include <algorithm>
#include <cctype>
#include <string_view>

#include <mpt/config/model/family.hpp>
#include <mpt/config/model/lora.hpp>

namespace mpt {

std::vector<linear_layer> linear_layers(model_config const& model) {
  std::int64_t const d = model.d_model;
  std::int64_t const width = query_width(model);
  std::int64_t const key_width = kv_heads(model) * head_dim(model);
  std::int64_t const hidden = ffn_hidden(model);
  std::vector<linear_layer> out;
  for (std::int64_t i = 0; i < model.n_layers; ++i) {
    auto const add = [&](std::string_view name, std::int64_t rows, std::int64_t columns) {
      out.push_back({parallel::concat("transformer.blocks.", i, ".", name), rows, columns});
    };
    bool const has_own_keys = key_source(model, i) == i;
    if (has_own_keys && model.attn.fused_qkv) {
      add("attn.Wqkv", width + 2 * key_width, d);
    } else {
      add("attn.Wq", width, d);
      if (has_own_keys) add("attn.Wk", key_width, d);
      if (has_own_keys) add("attn.Wv", key_width, d);
    }
    add("attn.out_proj", d, width);
    if (experts_of_layer(model, i) != nullptr) continue;  // adapters are for dense layers
    if (model.fused_gate)
      add("ffn.gate_up_proj", 2 * hidden, d);
    else
      add("ffn.up_proj", hidden, d);
    if (model.ffn_type == ffn_kind::mptglu && !model.fused_gate) add("ffn.gate_proj", hidden, d);
    add("ffn.down_proj", d, hidden);
  }
  return out;
}

std::int64_t adapter_parameter_count(model_config const& model) {
  std::int64_t out = 0;
  if (!model.lora) return out;
  for (auto const& layer : linear_layers(model))
    if (is_adapted(*model.lora, layer.name))
      out += lora_rank(*model.lora, layer.name) * (layer.in + layer.out);
  return out;
}

namespace {

/// The part of a layer's name after the number of its block: "attn.Wq".
[[nodiscard]] std::string_view name_in_block(std::string_view name) {
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    if (name[i] != '.' || std::isdigit(static_cast<unsigned char>(name[i + 1])) == 0) continue;
    auto const end = name.find('.', i + 1);
    if (end != std::string_view::npos) return name.substr(end + 1);
  }
  return name;
}

}  // namespace

std::string peft_layer_name(model_config const& model, std::string_view layer) {
  auto const* const family = find_family(model.family);
  if (family == nullptr) return std::string(layer);
  auto const stored = stored_names_of(*family, layer);
  return stored ? stored->names.front() : std::string(layer);
}

std::vector<std::string> targets_from_peft(model_config const& model, std::string_view target) {
  std::vector<std::string> named_layers;
  std::vector<std::string> endings;
  auto const layers = linear_layers(model);
  for (auto const& layer : layers)
    if (is_target(target, peft_layer_name(model, layer.name))) {
      named_layers.push_back(layer.name);
      std::string const ending(name_in_block(layer.name));
      if (std::ranges::find(endings, ending) == endings.end()) endings.push_back(ending);
    }
  auto const count = [&](std::string const& ending) {
    return std::ranges::count_if(layers,
                                 [&](auto const& layer) { return is_target(ending, layer.name); });
  };
  std::ptrdiff_t layers_with_endings = 0;
  for (auto const& ending : endings) layers_with_endings += count(ending);
  return layers_with_endings == std::ssize(named_layers) ? endings : named_layers;
}

std::string target_to_peft(model_config const& model, std::string const& target) {
  if (find_family(model.family) == nullptr) return target;
  std::vector<std::string> named_layers;
  std::vector<std::string> unnamed_layers;
  for (auto const& layer : linear_layers(model))
    (is_target(target, layer.name) ? named_layers : unnamed_layers)
        .push_back(peft_layer_name(model, layer.name));
  if (named_layers.empty()) return target;
  auto const& first = named_layers.front();
  for (std::string const& candidate :
       {first.substr(first.rfind('.') + 1), std::string(name_in_block(first))}) {
    auto const is_named = [&](std::string const& name) { return is_target(candidate, name); };
    if (std::ranges::all_of(named_layers, is_named) &&
        std::ranges::none_of(unnamed_layers, is_named))
      return candidate;
  }
  return first;
}

}  // namespace mpt
