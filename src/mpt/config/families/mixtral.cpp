// Mixtral: Mistral's form with experts in every layer, whose weights add up to 1 for each token.
#include <mpt/config/model/expert_form.hpp>

namespace mpt::families::mixtral {
namespace {

constexpr rotary_keys rotary{.default_theta = 1e6};

void describe(family_form& form, model_config& model) {
  describe_llama(form, model,
                 {.key_heads = 8,
                  .max_positions = 4096 * 32,
                  .eps = 1e-5,
                  .rotary = rotary,
                  .has_experts = true});
  describe_experts(form, model,
                   {.count = "num_local_experts",
                    .other_count = "num_experts",
                    .hidden = "",
                    .default_top_k = 2,
                    .always_norms = true});
  form.require_off("router_jitter_noise",
                   "noise on the input of the experts themselves is not supported");
  describe_window(form, model);
}

constexpr auto layers = llama_layers_but(std::array<stored_layer, 4>{
    {{"transformer.blocks.*.ffn.router.layer", {"model.layers.*.block_sparse_moe.gate"}},
     {"transformer.blocks.*.ffn.experts.mlp.w1",
      {"model.layers.*.block_sparse_moe.experts.*.w1.weight"},
      tensor_form::experts},
     {"transformer.blocks.*.ffn.experts.mlp.v1",
      {"model.layers.*.block_sparse_moe.experts.*.w3.weight"},
      tensor_form::experts},
     {"transformer.blocks.*.ffn.experts.mlp.w2",
      {"model.layers.*.block_sparse_moe.experts.*.w2.weight"},
      tensor_form::transposed_experts}}});

}  // namespace

extern constinit model_family const table =
    llama_family("mixtral", "MixtralForCausalLM", &describe, mixtral_gguf, rotary, layers);

}  // namespace mpt::families::mixtral
