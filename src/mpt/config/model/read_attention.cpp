#include <mpt/config/model/read_model.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include <mpt/yaml/reader.hpp>

namespace mpt {
namespace {

/// The types of scaling that have a field, as a message names them: "type yarn".
[[nodiscard]] std::string types_with_field(std::string_view field) {
  std::vector<std::string_view> types;
  for_each_rope_scaling([&](auto const& scaling) {
    scaling.visit_fields(scaling, [&](std::string_view key, auto const&, field_presence) {
      if (key == field) types.push_back(scaling.type);
    });
  });
  return fmt::format("type{} {}", types.size() > 1 ? "s" : "", fmt::join(types, " and "));
}

/// Reads a list of numbers; empty where it is absent.
[[nodiscard]] std::vector<double> read_numbers(config_reader& reader, std::string_view key) {
  std::vector<double> numbers;
  config_node const* const node = reader.raw(key);
  if (node == nullptr) return numbers;
  reader.check(key, node->is_list(), "expected a list of numbers, found ", describe(*node));
  for (auto const& item : node->items) {
    auto const number = item.is_scalar() ? parse_number(item.text) : std::nullopt;
    reader.check(key, number.has_value(), "expected numbers, found ", describe(item));
    numbers.push_back(*number);
  }
  return numbers;
}

/// Reads `rope_hf_config`. Fields of another type than the one that is chosen have no effect.
[[nodiscard]] rope_scaling read_scaling(config_reader& hf) {
  auto const type = hf.one_of("type", "no_scaling",
                              {"no_scaling", "linear", "dynamic", "llama3", "yarn", "longrope"});
  auto chosen = rope_scaling_named(type).value();
  std::set<std::string_view> read_keys;
  visit_fields(chosen, [&]<class Value>(std::string_view key, Value& value, field_presence need) {
    if constexpr (std::is_same_v<Value, std::vector<double>>)
      value = read_numbers(hf, key);
    else
      value = need == field_presence::required ? hf.required<Value>(key) : hf.get(key, value);
    read_keys.insert(key);
  });
  for_each_rope_scaling([&](auto const& other) {
    other.visit_fields(
        other, [&]<class Value>(std::string_view key, Value const& value, field_presence) {
          if (!read_keys.insert(key).second) return;
          if constexpr (std::is_same_v<Value, std::vector<double>>)
            static_cast<void>(hf.raw(key));
          else
            static_cast<void>(hf.get(key, value));
          hf.report_without_effect(
              key, key == "factor" ? "type is no_scaling" : "belongs to " + types_with_field(key));
        });
  });
  return chosen;
}

/// Reads `rope` and its settings.
void read_rope(config_reader& reader, attention_config& attention) {
  constexpr std::string_view keys[] = {"rope_theta", "rope_impl", "rope_dail_config",
                                       "rope_hf_config", "rotary_dim"};
  if (!reader.get("rope", false)) {
    for (auto const key : keys) reader.accept_without_effect(key, "belongs to rope");
    return;
  }
  rope_config rope;
  rope.theta = reader.get("rope_theta", rope.theta);
  rope.rotary_dim = reader.optional<std::int64_t>("rotary_dim");
  if (reader.one_of("rope_impl", "dail", {"dail", "hf"}) == "dail") {
    auto dail = reader.section("rope_dail_config");
    if (dail.one_of("type", "original", {"original", "xpos"}) == "xpos")
      rope.xpos_scale_base = dail.get("xpos_scale_base", 512.0);
    else
      dail.accept_without_effect("xpos_scale_base", "belongs to type xpos");
    dail.accept_without_effect("pos_idx_in_fp32", "angles are computed in double");
    dail.finish();
    reader.accept_without_effect("rope_hf_config", "belongs to rope_impl hf");
  } else {
    auto hf = reader.section("rope_hf_config");
    rope.scaling = read_scaling(hf);
    hf.finish();
    reader.accept_without_effect("rope_dail_config", "belongs to rope_impl dail");
  }
  attention.rope = rope;
}

/// Checks `kv_dim`, the width of the input of Wk and Wv in cross-attention. MPT has no
/// cross-attention: in LLM Foundry 0.22 a width other than d_model fails in the first forward pass.
void read_kv_dim(config_reader& reader, attention_config const& attention, std::int64_t d_model) {
  auto const width = reader.optional<std::int64_t>("kv_dim");
  reader.check(
      "kv_dim", !width || *width == d_model,
      "is the width of the input of keys and values in cross-attention, which this model does not "
      "have; leave it blank");
  reader.check("kv_dim", !width || !attention.fused_qkv, "needs fused_qkv: false");
}

/// Reads `block_overrides.overrides.NAME`.
[[nodiscard]] layer_override read_override(config_reader reader) {
  layer_override out;
  auto attention = reader.section("attn_config");
  out.sliding_window_size = attention.optional<std::int64_t>("sliding_window_size");
  auto tuning = attention.section("attn_temperature_tuning");
  out.floor_scale = tuning.optional<double>("floor_scale");
  out.attn_scale = tuning.optional<double>("attn_scale");
  tuning.finish();
  out.nope = attention.get("nope", false);
  out.rope_theta = attention.optional<double>("rope_theta");
  out.reuse_kv_layer_idx = attention.optional<std::int64_t>("reuse_kv_layer_idx");
  attention.refuse_unsupported(
      "reuse_kv_x_layer_idx",
      "it projects an earlier layer's input by weights of this layer; reuse_kv_layer_idx is no "
      "replacement, because it takes the earlier layer's keys and values unchanged");
  attention.finish();
  reader.finish();
  return out;
}

using named_overrides = std::vector<std::pair<std::string, layer_override>>;

/// Appends the layers that an `order` list describes. Its items are {name, repeat}, or {order,
/// repeat} with an `order` list inside.
void expand_order(config_node const& order, std::string const& path, config_report& report,
                  named_overrides const& known_overrides, std::size_t n_layers,
                  std::vector<layer_override>& layers) {
  parallel::require(order.is_list(), order.location, ": ", path, ": expected a list, found ",
                    describe(order));
  for (std::size_t i = 0; i < order.items.size(); ++i) {
    config_reader item(order.items[i], parallel::concat(path, ".", i), report);
    auto const repeat = item.get<std::int64_t>("repeat", 1);
    item.check("repeat", repeat >= 1 && repeat <= static_cast<std::int64_t>(n_layers),
               "must be from 1 to n_layers, found ", repeat);
    auto const name = item.optional<std::string>("name");
    config_node const* const nested = item.raw("order");
    parallel::require(name.has_value() != (nested != nullptr), order.items[i].location, ": ", path,
                      ".", i, ": give exactly one of name and order");
    layer_override layer;
    bool is_known = name == "default";
    for (auto const& [known_name, changes] : known_overrides)
      if (name == known_name) {
        layer = changes;
        is_known = true;
      }
    if (name)
      item.check("name", is_known, "'", printable(*name),
                 "' is neither 'default' nor a name in block_overrides.overrides");
    for (std::int64_t k = 0; k < repeat; ++k) {
      if (nested != nullptr)
        expand_order(*nested, parallel::concat(path, ".", i, ".order"), report, known_overrides,
                     n_layers, layers);
      else
        layers.push_back(layer);
      parallel::require(layers.size() <= n_layers, order.location, ": ", path,
                        ": describes more layers than n_layers = ", n_layers);
    }
    item.finish();
  }
}

}  // namespace

}  // namespace mpt

namespace mpt::detail {

attention_config read_attention(config_reader& reader, std::int64_t d_model) {
  attention_config attention;
  auto const type =
      reader.one_of("attn_type", "multihead_attention",
                    {"multihead_attention", "multiquery_attention", "grouped_query_attention"});
  attention.kv_n_heads = reader.optional<std::int64_t>("kv_n_heads");
  bool const grouped = type == "grouped_query_attention";
  reader.check("kv_n_heads", !grouped || attention.kv_n_heads, "missing; ", type, " needs it");
  reader.check("kv_n_heads", grouped || !attention.kv_n_heads,
               "belongs to attn_type grouped_query_attention");
  if (type == "multiquery_attention") attention.kv_n_heads = 1;
  attention.attn_pdrop = reader.get("attn_pdrop", attention.attn_pdrop);
  attention.clip_qkv = reader.optional<double>("clip_qkv");
  if (attention.clip_qkv == 0) attention.clip_qkv.reset();  // LLM Foundry takes 0 as none
  attention.fused_qkv = reader.get("fused_qkv", attention.fused_qkv);
  attention.qk_ln = reader.get("qk_ln", attention.qk_ln);
  attention.qk_gn = reader.get("qk_gn", attention.qk_gn);
  attention.qk_norm_eps = reader.get("qk_norm_eps", attention.qk_norm_eps);
  attention.norm_type =
      read_name(reader, "norm_type", "low_precision_layernorm", norm_kind_names, "a norm");
  if (!attention.qk_ln && !attention.qk_gn)
    reader.report_without_effect("norm_type", "belongs to qk_ln and qk_gn");
  attention.softmax_scale = reader.optional<double>("softmax_scale");
  attention.attn_logit_softcapping = reader.optional<double>("attn_logit_softcapping");
  attention.sliding_window_size = reader.get("sliding_window_size", attention.sliding_window_size);
  attention.attn_uses_sequence_id =
      reader.get("attn_uses_sequence_id", attention.attn_uses_sequence_id);
  attention.alibi = reader.get("alibi", attention.alibi);
  attention.alibi_bias_max = reader.get("alibi_bias_max", attention.alibi_bias_max);
  if (!attention.alibi) reader.report_without_effect("alibi_bias_max", "belongs to alibi");
  read_rope(reader, attention);
  auto tuning = reader.section("attn_temperature_tuning");
  attention.temperature.floor_scale = tuning.get("floor_scale", attention.temperature.floor_scale);
  attention.temperature.attn_scale = tuning.get("attn_scale", attention.temperature.attn_scale);
  tuning.finish();
  reader.accept_without_effect("attn_impl", "attention has one implementation per device");
  reader.accept_without_effect("verbose", "there are no further messages");
  reader.refuse_unsupported("nope", "it is set for single layers, by block_overrides", {"false"});
  read_kv_dim(reader, attention, d_model);
  reader.refuse_unsupported("prefix_lm", "attention is causal", {"false"});
  reader.refuse_unsupported("seq_parallel_world_size", "leave it blank", {"1"});
  return attention;
}

std::vector<layer_override> read_overrides(config_reader& model, std::int64_t n_layers) {
  std::vector<layer_override> layers;
  if (!model.has_key("block_overrides")) {
    static_cast<void>(model.raw("block_overrides"));
    return layers;
  }
  auto reader = model.section("block_overrides");
  named_overrides named;
  config_node const* const overrides = reader.raw("overrides");
  reader.check("overrides", overrides != nullptr && overrides->is_map(),
               "expected a mapping of names to what they change");
  for (std::size_t i = 0; i < overrides->keys.size(); ++i) {
    auto const& name = overrides->keys[i].name;
    reader.check("overrides", name != "default", "'default' is a layer without overrides");
    named.emplace_back(
        name, read_override({overrides->items[i],
                             reader.full_name(parallel::concat("overrides.", printable(name))),
                             reader.report()}));
  }
  config_node const* const order = reader.raw("order");
  reader.check("order", order != nullptr, "missing; it lists the layers by name");
  auto const repeat = reader.get<std::int64_t>("repeat", 1);
  reader.check("repeat", repeat >= 1 && repeat <= n_layers, "must be from 1 to n_layers, found ",
               repeat);
  for (std::int64_t k = 0; k < repeat; ++k)
    expand_order(*order, reader.full_name("order"), reader.report(), named,
                 static_cast<std::size_t>(n_layers), layers);
  reader.check("order", static_cast<std::int64_t>(layers.size()) == n_layers, "describes ",
               layers.size(), " layers, but n_layers is ", n_layers);
  reader.finish();
  if (std::ranges::all_of(layers, [](auto const& l) { return l == layer_override{}; }))
    layers.clear();  // all layers are alike
  return layers;
}

}  // namespace mpt::detail
