#include <mpt/config/model/linear_layers.hpp>

#include <string_view>

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
    add("ffn.up_proj", hidden, d);
    if (model.ffn_type == ffn_kind::mptglu) add("ffn.gate_proj", hidden, d);
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

}  // namespace mpt
