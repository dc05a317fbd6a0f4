// DBRX: LLM Foundry's form in transformers, with LayerNorm without biases, rotary positions,
// clipped queries, keys and values, and experts in every layer.
#include <mpt/config/model/family.hpp>

namespace mpt::families::dbrx {
namespace {

void describe_attention(family_form& form, model_config& model) {
  auto& attn = model.attn;
  form.probability("attn_pdrop", attn.attn_pdrop, 0);
  std::int64_t key_heads = kv_heads(model);
  form.field("kv_n_heads", key_heads, 1);
  double const theta = attn.rope ? attn.rope->theta : 0;
  if (form.writes()) {
    form.put("clip_qkv", attn.clip_qkv ? nlohmann::json(*attn.clip_qkv) : nlohmann::json());
    return form.put("rope_theta", theta);
  }
  form.require(key_heads <= model.n_heads && model.n_heads % key_heads == 0, "kv_n_heads",
               key_heads, " must divide n_heads ", model.n_heads);
  if (key_heads != model.n_heads) attn.kv_n_heads = key_heads;
  double clip = 0;
  form.optional_field("clip_qkv", clip, 0);
  form.require(clip >= 0, "clip_qkv", "expected a number above 0, found ", clip);
  if (clip > 0) attn.clip_qkv = clip;
}

void describe_experts(family_form& form, model_config& model) {
  if (form.writes() && !model.experts) return;  // the model that is read again has experts
  auto& experts = form.writes() ? *model.experts : model.experts.emplace();
  std::int64_t hidden = ffn_hidden(model);
  form.count("ffn_hidden_size", hidden);
  model.ffn_hidden_size = hidden;
  form.count("moe_num_experts", experts.count);
  form.field("moe_top_k", experts.top_k, 1);
  auto activation = form.section("ffn_act_fn");
  activation.activation("name", model.ffn_act_fn, "silu");
  form.put("ffn_act_fn", activation.json());
  if (form.writes()) {
    form.put("moe_jitter_eps",
             experts.jitter > 0 ? nlohmann::json(experts.jitter) : nlohmann::json());
    return form.put("moe_normalize_expert_weights", experts.weight_norm > 0
                                                        ? nlohmann::json(experts.weight_norm)
                                                        : nlohmann::json());
  }
  form.optional_field("moe_jitter_eps", experts.jitter, 0);
  constexpr char const* norm = "moe_normalize_expert_weights";
  form.optional_field(norm, experts.weight_norm, form.json().contains(norm) ? 0 : 1);
  static_cast<void>(form.value("moe_loss_weight"));  // output_router_logits is off
  static_cast<void>(form.value("hidden_size"));      // d_model
  experts.loss_weight = 0;
}

void describe(family_form& form, model_config& model) {
  form.count("vocab_size", model.vocab_size);
  form.count("d_model", model.d_model);
  form.count("n_layers", model.n_layers);
  form.count("n_heads", model.n_heads);
  form.field("max_seq_len", model.max_seq_len, 2048);
  form.probability("resid_pdrop", model.resid_pdrop, 0);
  form.probability("emb_pdrop", model.emb_pdrop, 0);
  form.initial_values(model.init, false);
  form.require_off("tie_word_embeddings", "DBRX has a head of its own");
  form.require_off("output_router_logits",
                   "versions of transformers have different balancing losses of DBRX");
  auto attention = form.section("attn_config");
  describe_attention(attention, model);
  auto experts = form.section("ffn_config");
  describe_experts(experts, model);
  form.put("attn_config", attention.json());
  form.put("ffn_config", experts.json());
  if (form.writes()) return form.rotary(model, {});
  form.require(model.d_model % model.n_heads == 0, "n_heads", model.n_heads,
               " must divide d_model ", model.d_model);
  static_cast<void>(form.value("num_key_value_heads"));  // attn_config decides
  model.ffn_type = ffn_kind::mptglu;
  model.norm_type = norm_kind::low_precision_layernorm;
  model.norm_eps = 1e-5;
  model.no_bias = true;
  model.learned_pos_emb = false;
  model.tie_word_embeddings = false;
  double theta = 10000;
  attention.field("rope_theta", theta, theta);
  form.rotary(model, {.default_theta = theta});
  form.require(model.attn.rope->theta == theta || !attention.json().contains("rope_theta"),
               "rope_parameters", "rope_theta is ", model.attn.rope->theta,
               ", but attn_config.rope_theta is ", theta,
               "; versions of transformers differ in which of them they take");
}

constexpr stored_layer layers[] = {
    {"transformer.wte", {"transformer.wte"}},
    {"transformer.blocks.*.norm_1", {"transformer.blocks.*.norm_attn_norm.norm_1"}},
    {"transformer.blocks.*.attn.Wqkv", {"transformer.blocks.*.norm_attn_norm.attn.Wqkv"}},
    {"transformer.blocks.*.attn.out_proj", {"transformer.blocks.*.norm_attn_norm.attn.out_proj"}},
    {"transformer.blocks.*.norm_2", {"transformer.blocks.*.norm_attn_norm.norm_2"}},
    {"transformer.blocks.*.ffn.router.layer", {"transformer.blocks.*.ffn.router.layer"}},
    {"transformer.blocks.*.ffn.experts.mlp.w1", {"transformer.blocks.*.ffn.experts.mlp.w1"}},
    {"transformer.blocks.*.ffn.experts.mlp.v1", {"transformer.blocks.*.ffn.experts.mlp.v1"}},
    {"transformer.blocks.*.ffn.experts.mlp.w2", {"transformer.blocks.*.ffn.experts.mlp.w2"}},
    {"transformer.norm_f", {"transformer.norm_f"}},
    {"lm_head", {"lm_head"}}};

constexpr std::string_view default_targets[] = {"Wqkv", "out_proj"};

}  // namespace

extern constinit model_family const table = {.model_type = "dbrx",
                                             .architecture = "DbrxForCausalLM",
                                             .describe = &describe,
                                             .layers = layers,
                                             .base_prefix = "transformer.",
                                             .buffers = {},
                                             .default_targets = default_targets,
                                             .length_key = "max_seq_len",
                                             .gguf = {.architecture = "dbrx",
                                                      .experts = gguf_experts::normalised,
                                                      .joins_projections = true,
                                                      .needs_output = true}};

}  // namespace mpt::families::dbrx
