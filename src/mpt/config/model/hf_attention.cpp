#include <mpt/config/model/hf_attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace mpt {
namespace {

/// Adds `rope` and its settings. `rope_impl` is `hf`, which needs no flash-attention; only xpos
/// needs `dail`.
void add_rope(nlohmann::json& json, rope_config const& rope) {
  json["rope"] = true;
  json["rope_theta"] = detail::json_number(rope.theta);
  if (rope.xpos_scale_base) {
    json["rope_impl"] = "dail";
    json["rope_dail_config"] = {{"type", "xpos"},
                                {"pos_idx_in_fp32", true},
                                {"xpos_scale_base", detail::json_number(*rope.xpos_scale_base)}};
    return;
  }
  json["rope_impl"] = "hf";
  if (rope.rotary_dim) json["rotary_dim"] = *rope.rotary_dim;
  nlohmann::json scaling = {{"type", type_of(rope.scaling)}, {"factor", 1.0}};
  visit_fields(rope.scaling, [&](std::string_view key, auto const& value, field_presence) {
    scaling[std::string(key)] = value;
  });
  json["rope_hf_config"] = std::move(scaling);
}

[[nodiscard]] nlohmann::json override_json(layer_override const& layer) {
  nlohmann::json attention = nlohmann::json::object();
  if (layer.sliding_window_size) attention["sliding_window_size"] = *layer.sliding_window_size;
  if (layer.floor_scale)
    attention["attn_temperature_tuning"]["floor_scale"] = detail::json_number(*layer.floor_scale);
  if (layer.attn_scale) attention["attn_temperature_tuning"]["attn_scale"] = *layer.attn_scale;
  if (layer.nope) attention["nope"] = true;
  if (layer.rope_theta) attention["rope_theta"] = detail::json_number(*layer.rope_theta);
  if (layer.reuse_kv_layer_idx) attention["reuse_kv_layer_idx"] = *layer.reuse_kv_layer_idx;
  return {{"attn_config", std::move(attention)}};
}

}  // namespace

}  // namespace mpt

namespace mpt::detail {

nlohmann::json json_number(double value) {
  if (value == std::trunc(value) && std::fabs(value) < 1e15)
    return static_cast<std::int64_t>(value);
  return value;
}

nlohmann::json attention_json(attention_config const& attn) {
  nlohmann::json json = {
      {"attn_type", attn.kv_n_heads ? "grouped_query_attention" : "multihead_attention"},
      {"attn_impl", "torch"},
      {"attn_pdrop", json_number(attn.attn_pdrop)},
      {"clip_qkv", json_or_null(attn.clip_qkv)},
      {"qk_ln", attn.qk_ln},
      {"softmax_scale", json_or_null(attn.softmax_scale)},
      {"attn_uses_sequence_id", attn.attn_uses_sequence_id},
      {"alibi", attn.alibi},
      {"alibi_bias_max", json_number(attn.alibi_bias_max)}};
  if (attn.kv_n_heads) json["kv_n_heads"] = *attn.kv_n_heads;
  if (!attn.fused_qkv) json["fused_qkv"] = false;
  if (attn.qk_gn) json["qk_gn"] = true;
  if (attn.qk_norm_eps != attention_config{}.qk_norm_eps) json["qk_norm_eps"] = attn.qk_norm_eps;
  if (attn.attn_logit_softcapping) json["attn_logit_softcapping"] = *attn.attn_logit_softcapping;
  if (attn.sliding_window_size >= 0) json["sliding_window_size"] = attn.sliding_window_size;
  if (attn.temperature != temperature_config{})
    json["attn_temperature_tuning"] = {{"floor_scale", json_number(attn.temperature.floor_scale)},
                                       {"attn_scale", attn.temperature.attn_scale}};
  if (attn.rope) add_rope(json, *attn.rope);
  return json;
}

nlohmann::json overrides_json(std::vector<layer_override> const& layers) {
  std::vector<layer_override> distinct_overrides;
  nlohmann::json order = nlohmann::json::array();
  nlohmann::json overrides = nlohmann::json::object();
  for (auto const& layer : layers) {
    std::string name = "default";
    if (layer != layer_override{}) {
      auto const found = std::ranges::find(distinct_overrides, layer);
      auto const kind = found - distinct_overrides.begin();
      if (found == distinct_overrides.end()) distinct_overrides.push_back(layer);
      name = parallel::concat("kind_", kind);
      overrides[name] = override_json(layer);
    }
    if (!order.empty() && order.back()["name"] == name)
      order.back()["repeat"] = order.back()["repeat"].get<int>() + 1;
    else
      order.push_back({{"name", name}, {"repeat", 1}});
  }
  return {{"overrides", std::move(overrides)}, {"order", std::move(order)}};
}

}  // namespace mpt::detail
