// GLM-4 of 2025 (0414): Llama's form with norms on both sides of attention and of the feed-forward
// layer, one matrix for gate and up, and rotary positions of neighbouring elements in a part of
// each head.
#include <mpt/config/model/llama_form.hpp>

namespace mpt::families::glm4 {
namespace {

constexpr rotary_keys keys{.fraction = "partial_rotary_factor", .default_fraction = 0.5};

void describe(family_form& form, model_config& model) {
  std::int64_t width = head_dim(model);
  form.count("head_dim", width);
  describe_llama(form, model,
                 {.key_heads = 2, .max_positions = 131072, .eps = 1.5625e-7, .rotary = keys});
  bool has_bias = has_attention_bias(model);
  form.field("attention_bias", has_bias, true);
  if (form.writes()) return;
  if (has_bias) model.attention_bias = true;
  model.branch_norms = norm_position::both;
  model.fused_gate = true;
}

constexpr auto layers = llama_layers_but(std::to_array<stored_layer>(
    {{"transformer.blocks.*.attn.Wqkv",
      {"model.layers.*.self_attn.q_proj", "model.layers.*.self_attn.k_proj",
       "model.layers.*.self_attn.v_proj"},
      tensor_form::interleaved},
     {"transformer.blocks.*.attn.Wq",
      {"model.layers.*.self_attn.q_proj"},
      tensor_form::interleaved},
     {"transformer.blocks.*.attn.Wk",
      {"model.layers.*.self_attn.k_proj"},
      tensor_form::interleaved},
     {"transformer.blocks.*.post_norm_1", {"model.layers.*.post_self_attn_layernorm"}},
     {"transformer.blocks.*.post_norm_2", {"model.layers.*.post_mlp_layernorm"}},
     {"transformer.blocks.*.ffn.gate_up_proj", {"model.layers.*.mlp.gate_up_proj"}}}));

}  // namespace

extern constinit model_family const table = llama_family(
    "glm4", "Glm4ForCausalLM", &describe,
    {.architecture = "glm4",
     .attention_biases = gguf_biases::optional,
     .interleaves_rotation = true,
     .has_head_width = true,
     .remove_held = [](model_config& model) { model.branch_norms = norm_position::input; }},
    keys, layers);

}  // namespace mpt::families::glm4
