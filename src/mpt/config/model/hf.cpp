#include <mpt/config/model/hf.hpp>

#include <algorithm>
#include <cmath>
#include <variant>

#include <mpt/config/model/family.hpp>
#include <mpt/config/model/hf_attention.hpp>
#include <mpt/config/model/read_model.hpp>
#include <mpt/config/model/token_ids.hpp>
#include <mpt/yaml/node.hpp>
#include <mpt/yaml/scalar.hpp>

namespace mpt {
namespace {

/// Keys that transformers' PretrainedConfig adds to every nested configuration; they are no
/// settings of attention.
constexpr std::string_view pretrained_config_keys[] = {"_name_or_path",
                                                       "architectures",
                                                       "chunk_size_feed_forward",
                                                       "dtype",
                                                       "id2label",
                                                       "is_encoder_decoder",
                                                       "label2id",
                                                       "model_type",
                                                       "problem_type",
                                                       "output_attentions",
                                                       "output_hidden_states",
                                                       "return_dict",
                                                       "torch_dtype",
                                                       "transformers_version"};

[[nodiscard]] std::optional<double> optional_above_zero(double value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

/// The keys of experts in `ffn_config`; null where there are none.
[[nodiscard]] nlohmann::json experts_json(model_config const& model) {
  nlohmann::json json;
  if (!model.experts) return json;
  auto const& experts = *model.experts;
  experts_config const defaults;
  auto const put = [&](char const* key, auto const& value, auto const& fallback) {
    if (value != fallback) json[key] = value;
  };
  json = {{"ffn_type", detail::listed_name(experts_kind_names, experts.kind)},
          {"moe_num_experts", experts.count},
          {"moe_top_k", experts.top_k},
          {"mlp_type", model.ffn_type == ffn_kind::mptglu ? "glu" : "mlp"},
          {"moe_jitter_eps", detail::json_or_null(optional_above_zero(experts.jitter))},
          {"moe_normalize_expert_weights",
           detail::json_or_null(optional_above_zero(experts.weight_norm))},
          {"uniform_expert_assignment", experts.uniform}};
  if (experts.kind != experts_kind::torch_dmoe) {
    json["moe_loss_weight"] = experts.loss_weight;
    json["moe_world_size"] = 1;
  } else {
    put("moe_loss_weight", experts.loss_weight, 0.0);
  }
  put("moe_bias_update_rate", experts.bias_rate, 0.0);
  put("moe_zloss_weight", experts.z_loss_weight, 0.0);
  if (experts.kind == experts_kind::mb_moe) json["moe_capacity_factor"] = experts.capacity_factor;
  put("moe_balance_set", detail::listed_name(balance_set_names, experts.balance_set), "microbatch");
  if (experts.hidden) json["moe_hidden_size"] = *experts.hidden;
  if (experts.shared_hidden) {
    json["shared_expert"] = true;
    json["shared_expert_hidden_size"] = *experts.shared_hidden;
  }
  put("moe_joined_loss", experts.joins_layers, false);
  put("moe_shared_gate", experts.has_shared_gate, false);
  put("moe_dense_layers", experts.dense_layers, defaults.dense_layers);
  return json;
}

/// The value of `ffn_config`; null for LLM Foundry's default.
[[nodiscard]] nlohmann::json ffn_json(model_config const& model) {
  using enum parallel::ops::activation_kind;
  nlohmann::json json = experts_json(model);
  if (model.ffn_hidden_size) json["ffn_hidden_size"] = *model.ffn_hidden_size;
  bool const is_default = model.experts && model.experts->kind != experts_kind::torch_dmoe &&
                          model.ffn_act_fn == gelu_tanh;
  if (is_default) return json;
  if (model.ffn_act_fn == gelu_tanh)
    json["ffn_act_fn"] = {{"name", "gelu"}, {"approximate", "tanh"}};
  else if (model.ffn_act_fn != gelu)
    json["ffn_act_fn"] = {{"name", detail::listed_name(activation_names, model.ffn_act_fn)}};
  if (model.ffn_act_fn == gelu && model.experts) json["ffn_act_fn"] = {{"name", "gelu"}};
  if (model.experts) return json;
  bool const gated = model.ffn_type == ffn_kind::mptglu;
  if (gated || !json.is_null()) json["ffn_type"] = gated ? "mptglu" : "mptmlp";
  if (model.fused_gate) json["fused_gate"] = true;
  return json;
}

[[nodiscard]] nlohmann::json init_json(init_config const& init) {
  nlohmann::json json = {{"emb_init_std", detail::json_or_null(init.emb_init_std)},
                         {"emb_init_uniform_lim", detail::json_or_null(init.emb_init_uniform_lim)},
                         {"init_std", detail::json_or_null(init.init_std)},
                         {"init_gain", init.init_gain},
                         {"fan_mode", init.fan_mode},
                         {"init_nonlinearity", init.init_nonlinearity}};
  json["name"] = detail::listed_name(init_scheme_names, init.name);
  std::visit([&](auto value) { json["init_div_is_residual"] = value; }, init.init_div_is_residual);
  return json;
}

}  // namespace

std::vector<std::string> transformers_gaps(model_config const& model) {
  std::vector<std::string> gaps;
  auto const add_gap_unless = [&](bool represented, std::string_view gap) {
    if (!represented) gaps.emplace_back(gap);
  };
  add_gap_unless(!model.learned_pos_emb, "positions are learned; it always uses ALiBi");
  add_gap_unless(model.attn.alibi || model.attn.rope || model.learned_pos_emb,
                 "there are no positions; it always uses ALiBi");
  add_gap_unless(model.attn.alibi_bias_max == 8,
                 "attn_config.alibi_bias_max is not 8, which it assumes");
  add_gap_unless(model.no_bias, "norms and FFN have biases; it has none");
  add_gap_unless(!has_attention_bias(model), "attention has biases; it has none");
  add_gap_unless(query_width(model) == model.d_model, "heads are not d_model wide together");
  add_gap_unless(has_out_proj_bias(model) == !model.no_bias,
                 "out_proj differs from the FFN in whether it has a bias");
  add_gap_unless(!model.parallel_residual, "attention and FFN read the same input");
  add_gap_unless(is_rms(model.norm_type) || has_norm_bias(model, model.norm_type) == !model.no_bias,
                 "norms differ from the FFN in whether they have biases");
  add_gap_unless(model.branch_norms == norm_position::input,
                 "norms are behind attention and FFN; it has them in front");
  add_gap_unless(!model.norm_unit_offset, "norms multiply by 1 + weight; it multiplies by weight");
  add_gap_unless(model.embedding_scale == 1 && model.residual_scale == 1,
                 "embeddings or the results of attention and FFN are scaled; it ignores that");
  add_gap_unless(ffn_hidden(model) == 4 * model.d_model, "the FFN is not 4 times d_model wide");
  add_gap_unless(!is_rms(model.norm_type), "norms are rmsnorm; it uses layernorm");
  add_gap_unless(!model.experts, "the FFN has experts; it has none");
  add_gap_unless(model.ffn_type == ffn_kind::mptmlp, "the FFN is gated (mptglu); it has none");
  add_gap_unless(model.ffn_act_fn == parallel::ops::activation_kind::gelu,
                 "ffn_act_fn is not the exact gelu, which it uses");
  add_gap_unless(!model.attn.qk_ln, "q and k are normalised (qk_ln); it ignores that");
  add_gap_unless(!model.attn.qk_gn, "q and k are normalised by head (qk_gn); it ignores that");
  add_gap_unless(
      kv_heads(model) == model.n_heads && model.attn.fused_qkv,
      "heads share keys, or q, k and v are projected apart; it has one Wqkv for all heads");
  add_gap_unless(
      model.attn.sliding_window_size < 0 && !model.attn.attn_logit_softcapping &&
          model.attn.temperature.attn_scale == 0 && model.layers.empty(),
      "attention has a window, a cap, a temperature, or differs by layer; it ignores that");
  add_gap_unless(!model.attn.rope, "positions are rotary; it always uses ALiBi alone");
  add_gap_unless(!model.logit_scale, "logits are scaled (logit_scale); it ignores that");
  add_gap_unless(!model.final_logit_softcapping,
                 "logits are capped (final_logit_softcapping); it ignores that");
  return gaps;
}

std::vector<std::string> vllm_gaps(model_config const& model) {
  if (model.family != "mpt") return {};
  if (!transformers_gaps(model).empty())
    return {"it has transformers' form of MPT alone, without the folder's code"};
  std::vector<std::string> gaps;
  auto const add_gap_unless = [&](bool is_served, std::string gap) {
    if (!is_served) gaps.push_back(std::move(gap));
  };
  double const usual_scale = 1 / std::sqrt(static_cast<double>(head_dim(model)));
  add_gap_unless(model.tie_word_embeddings, "it refuses an MPT with its own head");
  add_gap_unless(model.norm_type == norm_kind::low_precision_layernorm,
                 "it refuses a norm_type that is not spelt low_precision_layernorm");
  add_gap_unless(model.embedding_fraction == 1, "it refuses an embedding_fraction that is not 1");
  add_gap_unless(model.norm_eps == 1e-5, "it ignores norm_eps and takes 1e-5");
  add_gap_unless(!model.attn.softmax_scale || *model.attn.softmax_scale == usual_scale,
                 "it ignores softmax_scale and takes 1/sqrt(head_dim)");
  return gaps;
}

nlohmann::json to_hf_json(model_config const& model, std::string_view dtype) {
  parallel::require(dtype == "float32" || dtype == "bfloat16" || dtype == "float16",
                    "torch_dtype must be float32, bfloat16 or float16, found ", dtype);
  bool const is_transformers_form = model.family == "mpt" && transformers_gaps(model).empty();
  nlohmann::json json = {
      {"architectures", {is_transformers_form ? "MptForCausalLM" : remote_architecture}},
      {"model_type", is_transformers_form ? "mpt" : remote_model_type},
      {"torch_dtype", dtype},
      {"d_model", model.d_model},
      {"n_heads", model.n_heads},
      {"n_layers", model.n_layers},
      {"expansion_ratio", detail::json_number(model.expansion_ratio)},
      {"max_seq_len", model.max_seq_len},
      {"vocab_size", model.vocab_size},
      {"resid_pdrop", model.resid_pdrop},
      {"emb_pdrop", model.emb_pdrop},
      {"learned_pos_emb", model.learned_pos_emb},
      {"no_bias", model.no_bias},
      {"norm_type", detail::listed_name(norm_kind_names, model.norm_type)},
      {"norm_eps", model.norm_eps},
      {"layer_norm_epsilon", model.norm_eps},
      {"logit_scale", detail::json_or_null(model.logit_scale)},
      {"final_logit_softcapping", detail::json_or_null(model.final_logit_softcapping)},
      {"tie_word_embeddings", model.tie_word_embeddings},
      {"embedding_fraction", model.embedding_fraction},
      {"use_cache", false},
      {"attn_config", detail::attention_json(model.attn)},
      {"init_config", init_json(model.init)}};
  if (model.family != "mpt") json["family"] = model.family;
  if (!model.stored.text.empty()) json["config_json"] = nlohmann::json::parse(model.stored.text);
  if (model.head_dim) json["head_dim"] = *model.head_dim;
  if (model.out_proj_bias) json["out_proj_bias"] = *model.out_proj_bias;
  if (model.parallel_residual) json["parallel_residual"] = true;
  if (model.norm_bias) json["norm_bias"] = *model.norm_bias;
  if (model.branch_norms != norm_position::input)
    json["branch_norms"] = detail::listed_name(norm_position_names, model.branch_norms);
  if (model.norm_unit_offset) json["norm_unit_offset"] = true;
  if (model.embedding_scale != 1) json["embedding_scale"] = model.embedding_scale;
  if (model.residual_scale != 1) json["residual_scale"] = model.residual_scale;
  if (!model.layers.empty()) json["block_overrides"] = detail::overrides_json(model.layers);
  if (model.attention_bias) json["attention_bias"] = *model.attention_bias;
  if (model.attn.norm_type != norm_kind::low_precision_layernorm)
    json["attn_config"]["norm_type"] = detail::listed_name(norm_kind_names, model.attn.norm_type);
  if (auto const ffn = ffn_json(model); !ffn.is_null()) json["ffn_config"] = ffn;
  return json;
}

namespace {

/// The element type that a config.json names.
[[nodiscard]] std::string read_dtype(nlohmann::json const& json, std::string const& source) {
  std::string out = "float32";
  for (char const* const key : {"torch_dtype", "dtype"}) {  // older and newer transformers
    auto const found = json.find(key);
    if (found == json.end() || found->is_null()) continue;
    out = found->is_string() ? found->get<std::string>() : found->dump();
    parallel::require(out == "float32" || out == "bfloat16" || out == "float16", source, ": ", key,
                      " is '", printable(out), "'; expected float32, bfloat16 or float16");
  }
  return out;
}

}  // namespace

hf_model with_stored_form(model_config model, nlohmann::json const& json,
                          std::string const& source) {
  return {.model = std::move(model),
          .dtype = read_dtype(json, source),
          .end_tokens = read_token_ids(json, "eos_token_id", source)};
}

hf_model from_hf_json(nlohmann::json const& json, std::string const& source) {
  parallel::require(json.is_object(), source, ": expected a JSON object, found ",
                    std::string_view(json.type_name()));
  if (auto const type = json.find("model_type"); type != json.end() && type->is_string())
    if (auto const* const family = find_family(type->get_ref<std::string const&>())) {
      auto result = with_stored_form(read_family_json(*family, json, source), json, source);
      result.notes = family_notes(result.model, source);
      return result;
    }
  config_node root = detail::node_of(json, source, config_limits{}.depth);
  auto const text_member = [&](std::string_view key) {
    config_node const* const node = root.find(key);
    return node != nullptr && node->is_scalar() ? node->text : std::string();
  };
  config_node const* const quantised = root.find("quantization_config");
  parallel::require(quantised == nullptr || quantised->is_null(), source,
                    ": quantization_config: quantised weights are not read; expected float32, "
                    "bfloat16 or float16");
  bool const is_remote_form = text_member("model_type") == remote_model_type;
  parallel::require(is_remote_form || text_member("model_type") == "mpt", source,
                    ": model_type is '", printable(text_member("model_type")),
                    "'; the families that are read are ", family_names());
  for (std::string_view const key : {"d_model", "n_heads", "n_layers", "vocab_size"})
    parallel::require(!text_member(key).empty(), source, ": lacks ", key,
                      ", a number; a model's size is not guessed");
  if (!is_remote_form) require_model_class(json, "mpt", source);
  bool from_transformers = !is_remote_form && root.find("layer_norm_epsilon") != nullptr;
  if (config_node const* const names = root.find("architectures");
      !is_remote_form && names != nullptr)
    for (config_node const& name : names->items) from_transformers = name.text.starts_with("Mpt");

  // transformers and LLM Foundry have different names and defaults.
  if (config_node const* const eps = root.find("layer_norm_epsilon");
      eps != nullptr && (from_transformers || root.find("norm_eps") == nullptr))
    root.set({"norm_eps", source}, *eps);
  config_node true_node;
  true_node.type = config_node::kind::scalar;
  true_node.text = "true";
  true_node.location = source;
  if (from_transformers && root.find("no_bias") == nullptr)
    root.set({"no_bias", source}, true_node);
  // `attention` points into `root`, so no member is added to `root` below
  config_node* attention = root.find("attn_config");
  if (attention == nullptr || attention->is_null()) {
    config_node empty;
    empty.type = config_node::kind::map;
    empty.location = source;
    root.set({"attn_config", source}, std::move(empty));
    attention = root.find("attn_config");
  }
  parallel::require(attention->is_map(), source, ": attn_config: expected a mapping, found ",
                    describe(*attention));
  if (from_transformers && attention->find("alibi") == nullptr)
    attention->set({"alibi", source}, true_node);
  config_node attention_settings;
  attention_settings.type = config_node::kind::map;
  attention_settings.location = source;
  for (std::size_t i = 0; i < attention->keys.size(); ++i)
    if (std::ranges::find(pretrained_config_keys, attention->keys[i].name) ==
        std::end(pretrained_config_keys))
      attention_settings.set(attention->keys[i], attention->items[i]);
  *attention = std::move(attention_settings);

  config_report report;
  config_reader reader(root, "", report);
  auto model = read_model(reader);
  if (auto const stored = json.find("config_json"); stored != json.end() && stored->is_object())
    model.stored.text = stored->dump();
  auto result = with_stored_form(std::move(model), json, source);
  if (from_transformers) {
    auto const gaps = transformers_gaps(result.model);
    if (!gaps.empty())
      parallel::fail(source,
                     ": written for transformers' MptForCausalLM, which does not do what it says: ",
                     gaps.front());
  }
  return result;
}

std::optional<setting_difference> difference_of(model_config const& first,
                                                model_config const& second,
                                                std::string_view ignored_prefix) {
  auto const settings_with_meaning = [](model_config const& model) {
    auto json = to_hf_json(model, "float32");
    for (char const* const key :
         {"architectures", "auto_map", "model_type", "torch_dtype", "max_seq_len", "resid_pdrop",
          "emb_pdrop", "embedding_fraction", "init_config", "use_cache", "expansion_ratio",
          "family", "head_dim", "config_json"})
      json.erase(key);
    if (model.head_dim && !is_default_head_dim(model)) json["head_dim"] = *model.head_dim;
    json["out_proj_bias"] = has_out_proj_bias(model);
    json["norm_bias"] = has_norm_bias(model, model.norm_type);
    auto& attn = json["attn_config"];
    for (char const* const key : {"attn_impl", "attn_pdrop", "attn_uses_sequence_id", "attn_type"})
      attn.erase(key);
    if (!model.attn.alibi) attn.erase("alibi_bias_max");
    auto const norm_rule = [](norm_kind kind) { return is_rms(kind) ? "rmsnorm" : "layernorm"; };
    json["norm_type"] = norm_rule(model.norm_type);
    if (model.attn.qk_ln || model.attn.qk_gn)
      attn["norm_type"] = norm_rule(model.attn.norm_type);
    else
      attn.erase("norm_type");
    json["ffn_config"]["ffn_hidden_size"] = ffn_hidden(model);
    if (!model.experts)
      json["ffn_config"]["ffn_type"] = model.ffn_type == ffn_kind::mptglu ? "mptglu" : "mptmlp";
    for (char const* const key : {"moe_loss_weight", "moe_zloss_weight", "moe_balance_set",
                                  "moe_joined_loss", "moe_jitter_eps", "moe_world_size"})
      json["ffn_config"].erase(key);
    json["attention_bias"] = has_attention_bias(model);
    if (kv_heads(model) == model.n_heads) attn["kv_n_heads"] = nullptr;
    auto const default_scale = 1 / std::sqrt(static_cast<double>(head_dim(model)));
    if (model.attn.softmax_scale.value_or(default_scale) == default_scale)
      attn["softmax_scale"] = nullptr;
    return json.flatten();
  };
  auto const dotted_name = [](std::string const& pointer) {  // "/attn_config/alibi" as in a YAML
    auto name = pointer.substr(1);
    std::ranges::replace(name, '/', '.');
    return name;
  };
  auto found = first_difference(
      settings_with_meaning(first), settings_with_meaning(second), [&](std::string const& pointer) {
        return ignored_prefix.empty() || !dotted_name(pointer).starts_with(ignored_prefix);
      });
  if (found) found->name = dotted_name(found->name);
  return found;
}

hf_model read_hf_config(std::filesystem::path path) {
  if (std::filesystem::is_directory(path)) path /= "config.json";
  return from_hf_json(parallel::checkpoint::parse_json(read_small_file(path), path.string()),
                      path.string());
}

}  // namespace mpt

namespace mpt::detail {

config_node node_of(nlohmann::json const& json, std::string const& location, std::size_t depth) {
  parallel::require(depth > 0, location, ": nested too deeply");
  config_node node;
  node.location = location;
  if (json.is_null()) return node;
  if (json.is_object()) {
    node.type = config_node::kind::map;
    for (auto const& [key, value] : json.items()) {
      node.keys.push_back({key, location});
      node.items.push_back(node_of(value, location, depth - 1));
    }
  } else if (json.is_array()) {
    node.type = config_node::kind::list;
    for (auto const& value : json) node.items.push_back(node_of(value, location, depth - 1));
  } else {
    node.type = config_node::kind::scalar;
    node.is_string = json.is_string();
    node.text = json.is_string() ? json.get<std::string>() : json.dump();
  }
  return node;
}

nlohmann::json to_json(config_node const& node) {
  if (node.is_map()) {
    auto out = nlohmann::json::object();
    for (std::size_t i = 0; i < node.items.size(); ++i)
      out[node.keys[i].name] = to_json(node.items[i]);
    return out;
  }
  if (node.is_list()) {
    auto out = nlohmann::json::array();
    for (auto const& item : node.items) out.push_back(to_json(item));
    return out;
  }
  if (node.is_null()) return nullptr;
  if (node.is_string) return node.text;
  if (auto const flag = parse_bool(node.text)) return *flag;
  bool const is_whole = node.text.find_first_of(".eE") == std::string::npos;
  if (auto const number = parse_integer(node.text); number && is_whole)
    return *number < 0 ? nlohmann::json(*number)
                       : nlohmann::json(static_cast<std::uint64_t>(*number));
  if (auto const number = parse_number(node.text)) return *number;
  return node.text;
}

}  // namespace mpt::detail
