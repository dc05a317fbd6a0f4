// Gemma 2: Gemma's form with norms on both sides, capped scores and logits, and a window in every
// other layer.
#include <mpt/config/model/gemma_form.hpp>

namespace mpt::families::gemma2 {
namespace {

void describe(family_form& form, model_config& model) {
  describe_gemma(form, model,
                 {.key_heads = 4, .max_positions = 8192, .activation_key = "hidden_activation"});
  describe_sandwich(form, model);
  describe_cap(form, "final_logit_softcapping", model.final_logit_softcapping, 30);
  describe_cap(form, "attn_logit_softcapping", model.attn.attn_logit_softcapping, 50);
  describe_layer_windows(form, model, all_but_every(2, model.n_layers), 4096);
}

}  // namespace

extern constinit model_family const table =
    llama_family("gemma2", "Gemma2ForCausalLM", &describe, gemma_gguf("gemma2"), {}, gemma_layers);

}  // namespace mpt::families::gemma2
