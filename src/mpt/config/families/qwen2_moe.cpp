// Qwen1.5 and Qwen2 with experts: Qwen2's form, with an expert for all tokens that has a weight of
// its own, and in which some layers can be without experts.
#include <mpt/config/model/expert_form.hpp>

namespace mpt::families::qwen2_moe {
namespace {

void describe(family_form& form, model_config& model) {
  describe_llama(form, model, {.key_heads = 16, .max_positions = 32768, .has_experts = true});
  require_default_head_dim(form, model);
  describe_experts(form, model, {.default_top_k = 4});
  describe_dense_layers(form, model);
  std::int64_t shared_hidden =
      model.experts ? model.experts->shared_hidden.value_or(ffn_hidden(model)) : 1;
  form.count("shared_expert_intermediate_size", shared_hidden);
  bool has_biases = has_attention_bias(model);
  form.field("qkv_bias", has_biases, true);
  if (form.writes()) return form.put("use_sliding_window", false);
  model.experts->shared_hidden = shared_hidden;
  model.experts->has_shared_gate = true;
  if (has_biases) model.attention_bias = true;
  form.require_off("use_sliding_window",
                   "versions of transformers differ in which layers have a window");
  for (char const* const key : {"sliding_window", "max_window_layers"})
    static_cast<void>(form.value(key));  // without effect then
  auto const listed = read_layer_types(form, model.n_layers);
  form.require(!listed || std::ranges::find(*listed, true) == listed->end(), "layer_types",
               "is sliding_attention, but use_sliding_window is off");
}

constexpr auto layers = llama_layers_but(std::array<stored_layer, 8>{
    {expert_layers[0],
     expert_layers[1],
     expert_layers[2],
     expert_layers[3],
     {"transformer.blocks.*.ffn.shared_expert.w1",
      {"model.layers.*.mlp.shared_expert.gate_proj.weight"}},
     {"transformer.blocks.*.ffn.shared_expert.v1",
      {"model.layers.*.mlp.shared_expert.up_proj.weight"}},
     {"transformer.blocks.*.ffn.shared_expert.w2",
      {"model.layers.*.mlp.shared_expert.down_proj.weight"},
      tensor_form::transposed},
     {"transformer.blocks.*.ffn.shared_expert_gate", {"model.layers.*.mlp.shared_expert_gate"}}}});

}  // namespace

extern constinit model_family const table =
    llama_family("qwen2_moe", "Qwen2MoeForCausalLM", &describe,
                 {.architecture = "qwen2moe",
                  .attention_biases = gguf_biases::required,
                  .experts = gguf_experts::weighted,
                  .has_shared_expert = true,
                  .has_expert_width = true,
                  .needs_output = true},
                 {}, layers);

}  // namespace mpt::families::qwen2_moe
