// Mixtral: Mistral's form with experts in every layer, whose weights add up to 1 for each token.
#include <mpt/config/model/expert_form.hpp>

namespace mpt::families::mixtral {
namespace {

constexpr rotary_keys rotary{.default_theta = 1e6};

void describe(family_form& form, model_config& model) {
  describe_llama(form, model,
                 {.key_heads = 8,
                  .max_positions = 4096 * 32,
                  .norm_eps = 1e-5,
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
  std::optional<std::int64_t> window;  // tokens that a token sees, itself included
  if (model.attn.sliding_window_size >= 0) window = model.attn.sliding_window_size + 1;
  form.optional_count("sliding_window", window);
  if (!form.writes() && window) model.attn.sliding_window_size = *window - 1;
}

constexpr auto layers = llama_layers_and(std::array<stored_layer, 4>{
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
    expert_family("mixtral", "MixtralForCausalLM", &describe, layers);

}  // namespace mpt::families::mixtral
