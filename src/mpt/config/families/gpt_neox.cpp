// GPT-NeoX and Pythia: LayerNorm with biases, branches side by side, rotary positions in a part of
// each head, one projection in which each head's query, key and value follow each other.
#include <mpt/config/model/family.hpp>

namespace mpt::families::gpt_neox {
namespace {

constexpr rotary_keys keys{
    .theta = "rotary_emb_base", .fraction = "rotary_pct", .default_fraction = 0.25};

void describe(family_form& form, model_config& model) {
  form.sizes(model);
  form.field("max_position_embeddings", model.max_seq_len, 2048);
  form.epsilon("layer_norm_eps", model.norm_eps, 1e-5);
  form.field("tie_word_embeddings", model.tie_word_embeddings, false);
  form.field("use_parallel_residual", model.parallel_residual, true);
  form.probability("attention_dropout", model.attn.attn_pdrop, 0);
  form.probability("hidden_dropout", model.resid_pdrop, 0);
  form.attention_bias(model, true);
  form.initial_values(model.init, false);
  form.activation("hidden_act", model.ffn_act_fn, "gelu");
  if (form.writes()) return form.rotary(model, keys);
  form.require(model.d_model % model.n_heads == 0, "num_attention_heads", model.n_heads,
               " must divide hidden_size ", model.d_model);
  model.learned_pos_emb = false;
  model.emb_pdrop = model.resid_pdrop;
  form.rotary(model, keys);
}

constexpr stored_layer layers[] = {
    {"transformer.wte", {"gpt_neox.embed_in"}},
    {"transformer.blocks.*.norm_1", {"gpt_neox.layers.*.input_layernorm"}},
    {"transformer.blocks.*.attn.Wqkv",
     {"gpt_neox.layers.*.attention.query_key_value"},
     tensor_form::head_groups},
    {"transformer.blocks.*.attn.out_proj", {"gpt_neox.layers.*.attention.dense"}},
    {"transformer.blocks.*.norm_2", {"gpt_neox.layers.*.post_attention_layernorm"}},
    {"transformer.blocks.*.ffn.up_proj", {"gpt_neox.layers.*.mlp.dense_h_to_4h"}},
    {"transformer.blocks.*.ffn.down_proj", {"gpt_neox.layers.*.mlp.dense_4h_to_h"}},
    {"transformer.norm_f", {"gpt_neox.final_layer_norm"}},
    {"lm_head", {"embed_out"}}};

/// The ends of names of causal masks and of rotary frequencies, which earlier versions of
/// transformers stored.
constexpr std::string_view buffers[] = {".attention.bias", ".attention.masked_bias",
                                        ".rotary_emb.inv_freq"};

constexpr std::string_view default_targets[] = {"query_key_value"};

}  // namespace

extern constinit model_family const table = {
    .model_type = "gpt_neox",
    .architecture = "GPTNeoXForCausalLM",
    .describe = &describe,
    .layers = layers,
    .base_prefix = "gpt_neox.",
    .buffers = buffers,
    .default_targets = default_targets,
    .rotary = keys,
    .gguf = {.architecture = "gptneox",
             .activation = parallel::ops::activation_kind::gelu_tanh,
             .attention_biases = gguf_biases::required,
             .joins_projections = true,
             .needs_output = true}};

}  // namespace mpt::families::gpt_neox
