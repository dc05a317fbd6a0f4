// StableLM 3B and StableLM 2 1.6B: Llama's form with LayerNorm, rotary positions in a part of each
// head, and biases of queries, keys and values on request.
#include <mpt/config/model/llama_form.hpp>

namespace mpt::families::stablelm {
namespace {

constexpr rotary_keys keys{.fraction = "partial_rotary_factor", .default_fraction = 0.25};

void describe(family_form& form, model_config& model) {
  describe_llama(form, model,
                 {.key_heads = 32,
                  .max_positions = 4096,
                  .eps = 1e-5,
                  .eps_key = "layer_norm_eps",
                  .rotary = keys});
  form.require_off("use_parallel_residual",
                   "branches side by side that share one norm are not supported");
  form.require_off("qk_layernorm",
                   "norms with weights of their own for each head are not supported");
  form.require_off("hidden_dropout",
                   "dropout behind the feed-forward layer alone is not supported");
  bool has_bias = has_attention_bias(model);
  form.field("use_qkv_bias", has_bias, false);
  if (form.writes()) return;
  form.require(
      !model.head_dim, "head_dim", "is ", model.head_dim.value_or(0),
      ", but transformers' heads of this family are hidden_size / num_attention_heads wide");
  if (has_bias) model.attention_bias = true;
  set_layer_norms(model);
}

}  // namespace

extern constinit model_family const table = llama_family(
    "stablelm", "StableLmForCausalLM", &describe,
    {.architecture = "stablelm", .attention_biases = gguf_biases::optional, .needs_output = true},
    keys);

}  // namespace mpt::families::stablelm
