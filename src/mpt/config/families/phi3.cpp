// Phi-3 and Phi-4: Llama's form with one matrix for queries, keys and values, one for gate and up,
// and LongRoPE.
#include <mpt/config/model/llama_form.hpp>

namespace mpt::families::phi3 {
namespace {

constexpr rotary_keys keys{.fraction = "partial_rotary_factor", .trained_positions = 4096};

void describe(family_form& form, model_config& model) {
  describe_llama(form, model, {.max_positions = 4096, .eps = 1e-5, .rotary = keys});
  form.probability("resid_pdrop", model.resid_pdrop, 0);
  describe_window(form, model);
  form.require_off("embd_pdrop", "transformers' Phi3ForCausalLM has no dropout of embeddings");
  if (form.writes()) return;
  static_cast<void>(form.value(trained_positions_key));  // without effect unless it is LongRoPE's
  auto const& scaling = model.attn.rope->scaling;
  form.require(
      std::holds_alternative<unscaled_rope>(scaling) || std::holds_alternative<long_rope>(scaling),
      "rope_type", "is ", type_of(scaling),
      "; transformers takes default and longrope for this family");
  model.fused_gate = true;
}

constexpr auto layers = llama_layers_but(std::to_array<stored_layer>(
    {{"transformer.blocks.*.attn.Wqkv", {"model.layers.*.self_attn.qkv_proj"}},
     {"transformer.blocks.*.ffn.gate_up_proj", {"model.layers.*.mlp.gate_up_proj"}}}));

constexpr std::string_view default_targets[] = {"qkv_proj"};

}  // namespace

extern constinit model_family const table = llama_family("phi3", "Phi3ForCausalLM", &describe,
                                                         {.architecture = "phi3",
                                                          .joins_projections = true,
                                                          .has_head_width = true,
                                                          .has_frequency_factors = true},
                                                         keys, layers, default_targets);

}  // namespace mpt::families::phi3
