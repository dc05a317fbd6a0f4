// GPT-2: learned positions, LayerNorm with biases, weights stored as [in, out] (transformers'
// Conv1D).
#include <mpt/config/model/family.hpp>

namespace mpt::families::gpt2 {
namespace {

void describe(family_form& form, model_config& model) {
  form.count("vocab_size", model.vocab_size);
  form.count("n_embd", model.d_model);
  form.count("n_layer", model.n_layers);
  form.count("n_head", model.n_heads);
  form.field("n_positions", model.max_seq_len, 1024);
  form.optional_count("n_inner", model.ffn_hidden_size);
  form.epsilon("layer_norm_epsilon", model.norm_eps, 1e-5);
  form.probability("resid_pdrop", model.resid_pdrop, 0.1);
  form.probability("embd_pdrop", model.emb_pdrop, 0.1);
  form.probability("attn_pdrop", model.attn.attn_pdrop, 0.1);
  form.field("tie_word_embeddings", model.tie_word_embeddings, true);
  constexpr bool divides_residual = true;  // by sqrt(2 * layers)
  form.initial_values(model.init, divides_residual);
  form.activation("activation_function", model.ffn_act_fn, "gelu_new");
  form.require_value("scale_attn_weights", true,
                     "scores are always divided by the square root of head_dim");
  form.require_off("scale_attn_by_inverse_layer_idx",
                   "scores that are scaled by layer are not supported");
  form.require_off("add_cross_attention", "cross-attention is not supported");
  if (form.writes()) return;  // what follows only reads
  // Named so that it is known to the family; either value is right, because scores are always
  // computed in float32.
  static_cast<void>(form.value("reorder_and_upcast_attn"));
  form.require(model.d_model % model.n_heads == 0, "n_head", model.n_heads, " must divide n_embd ",
               model.d_model);
}

constexpr stored_layer layers[] = {
    {"transformer.wte", {"transformer.wte"}},
    {"transformer.wpe", {"transformer.wpe"}},
    {"transformer.blocks.*.norm_1", {"transformer.h.*.ln_1"}},
    {"transformer.blocks.*.attn.Wqkv", {"transformer.h.*.attn.c_attn"}, tensor_form::transposed},
    {"transformer.blocks.*.attn.out_proj",
     {"transformer.h.*.attn.c_proj"},
     tensor_form::transposed},
    {"transformer.blocks.*.norm_2", {"transformer.h.*.ln_2"}},
    {"transformer.blocks.*.ffn.up_proj", {"transformer.h.*.mlp.c_fc"}, tensor_form::transposed},
    {"transformer.blocks.*.ffn.down_proj", {"transformer.h.*.mlp.c_proj"}, tensor_form::transposed},
    {"transformer.norm_f", {"transformer.ln_f"}},
    {"lm_head", {"lm_head"}}};

/// The ends of names of causal masks, which earlier versions of transformers stored.
constexpr std::string_view buffers[] = {".attn.bias", ".attn.masked_bias"};

constexpr std::string_view default_targets[] = {"c_attn"};

}  // namespace

extern constinit model_family const table = {
    .model_type = "gpt2",
    .architecture = "GPT2LMHeadModel",
    .describe = &describe,
    .layers = layers,
    .base_prefix = "transformer.",
    .buffers = buffers,
    .default_targets = default_targets,
    .length_key = "n_positions",
    .gguf = {.architecture = "gpt2",
             .activation = parallel::ops::activation_kind::gelu_tanh,
             .attention_biases = gguf_biases::required,
             .joins_projections = true}};

}  // namespace mpt::families::gpt2
