// OLMoE: Llama's form with norms of whole queries and keys, and experts in every layer.
#include <mpt/config/model/expert_form.hpp>

namespace mpt::families::olmoe {
namespace {

void describe(family_form& form, model_config& model) {
  describe_llama(form, model, {.max_positions = 4096, .eps = 1e-5, .has_experts = true});
  require_default_head_dim(form, model);
  describe_experts(form, model,
                   {.other_count = "num_local_experts",
                    .hidden = "",
                    .default_top_k = 8,
                    .default_loss_weight = 0.01});
  form.attention_bias(model, false);
  if (form.writes()) return;
  form.require(form.value("clip_qkv").is_null(), "clip_qkv",
               "clips queries and keys behind their norms, which is not supported");
  model.attn.qk_ln = true;
  model.attn.qk_norm_eps = model.norm_eps;
}

constexpr auto layers = llama_layers_but(expert_layers);

}  // namespace

extern constinit model_family const table = llama_family("olmoe", "OlmoeForCausalLM", &describe,
                                                         {.architecture = "olmoe",
                                                          .experts = gguf_experts::weighted,
                                                          .needs_output = true,
                                                          .remove_held = &remove_query_key_norms},
                                                         {}, layers);

}  // namespace mpt::families::olmoe
