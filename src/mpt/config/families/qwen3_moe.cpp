// Qwen3 with experts: Qwen3's form, in which some layers can be without experts.
#include <mpt/config/model/expert_form.hpp>

namespace mpt::families::qwen3_moe {
namespace {

void describe(family_form& form, model_config& model) {
  describe_llama(form, model, {.key_heads = 4, .max_positions = 32768, .has_experts = true});
  describe_experts(form, model, {.other_count = "num_local_experts", .default_top_k = 8});
  describe_dense_layers(form, model);
  form.attention_bias(model, false);
  bool has_window = model.attn.sliding_window_size >= 0;
  form.field("use_sliding_window", has_window, false);
  if (form.writes()) {
    if (has_window) form.put("sliding_window", model.attn.sliding_window_size + 1);
    return form.put("head_dim", head_dim(model));
  }
  auto const window = read_window(form, 4096);
  if (has_window && window) model.attn.sliding_window_size = *window - 1;
  model.attn.qk_gn = true;
  model.attn.qk_norm_eps = model.norm_eps;
}

constexpr auto layers = llama_layers_but(expert_layers);

}  // namespace

extern constinit model_family const table =
    llama_family("qwen3_moe", "Qwen3MoeForCausalLM", &describe,
                 {.architecture = "qwen3moe",
                  .experts = gguf_experts::normalised,
                  .has_expert_width = true,
                  .has_head_width = true,
                  .remove_held = &remove_query_key_norms},
                 {}, layers);

}  // namespace mpt::families::qwen3_moe
