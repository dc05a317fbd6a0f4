// OLMo 2: Llama's form with norms behind attention and the feed-forward layer, and norms of whole
// queries and keys.
#include <mpt/config/model/llama_form.hpp>

namespace mpt::families::olmo2 {
namespace {

void describe(family_form& form, model_config& model) {
  describe_llama(form, model, {.eps = 1e-5});
  form.attention_bias(model, false);
  if (form.writes()) return;
  model.branch_norms = norm_position::output;
  model.attn.qk_ln = true;
  model.attn.qk_norm_eps = model.norm_eps;
}

constexpr auto layers = llama_layers_but(std::to_array<stored_layer>(
    {{"transformer.blocks.*.post_norm_1", {"model.layers.*.post_attention_layernorm"}},
     {"transformer.blocks.*.post_norm_2", {"model.layers.*.post_feedforward_layernorm"}}}));

}  // namespace

extern constinit model_family const table = llama_family("olmo2", "Olmo2ForCausalLM", &describe,
                                                         {.architecture = "olmo2",
                                                          .needs_output = true,
                                                          .remove_held =
                                                              [](model_config& model) {
                                                                model.branch_norms =
                                                                    norm_position::input;
                                                                remove_query_key_norms(model);
                                                              }},
                                                         {}, layers);

}  // namespace mpt::families::olmo2
