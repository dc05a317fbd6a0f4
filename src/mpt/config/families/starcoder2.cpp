// StarCoder2: Llama's form with LayerNorm, a feed-forward layer without a gate, and biases.
#include <mpt/config/model/llama_form.hpp>

namespace mpt::families::starcoder2 {
namespace {

void describe(family_form& form, model_config& model) {
  describe_llama(form, model,
                 {.key_heads = 2,
                  .max_positions = 4096,
                  .eps = 1e-5,
                  .ties_embeddings = true,
                  .deviation = 0.018042,
                  .activation = "gelu_pytorch_tanh",
                  .eps_key = "norm_epsilon"});
  form.probability("residual_dropout", model.resid_pdrop, 0);
  form.probability("embedding_dropout", model.emb_pdrop, 0);
  describe_window(form, model);
  bool has_bias = !model.no_bias;
  form.field("use_bias", has_bias, true);
  if (form.writes()) return;
  model.no_bias = !has_bias;
  model.ffn_type = ffn_kind::mptmlp;
  set_layer_norms(model);
}

constexpr auto layers = llama_layers_but(std::to_array<stored_layer>(
    {{"transformer.blocks.*.ffn.up_proj", {"model.layers.*.mlp.c_fc"}},
     {"transformer.blocks.*.ffn.down_proj", {"model.layers.*.mlp.c_proj"}}}));

}  // namespace

extern constinit model_family const table =
    llama_family("starcoder2", "Starcoder2ForCausalLM", &describe,
                 {.architecture = "starcoder2",
                  .activation = parallel::ops::activation_kind::gelu_tanh,
                  .attention_biases = gguf_biases::required},
                 {}, layers);

}  // namespace mpt::families::starcoder2
