// Gemma: Llama's form with scaled embeddings, norms of 1 + weight, and a gate of GELU.
#include <mpt/config/model/gemma_form.hpp>
#include <mpt/yaml/node.hpp>

namespace mpt::families::gemma {
namespace {

void describe(family_form& form, model_config& model) {
  describe_gemma(form, model, {.key_heads = 16, .max_positions = 8192});
  if (form.writes()) return;
  auto const named = form.value("hidden_activation");
  form.require(named.is_null() || named == "gelu_pytorch_tanh", "hidden_activation", "is ",
               printable(named.dump()),
               "; versions of transformers differ in whether they take it or hidden_act, so leave "
               "it out");
  if (form.value("hidden_act") != "gelu") return;
  form.add_note(
      "hidden_act gelu means gelu_pytorch_tanh, with which Gemma was made, as in transformers");
  model.ffn_act_fn = parallel::ops::activation_kind::gelu_tanh;
}

}  // namespace

extern constinit model_family const table =
    llama_family("gemma", "GemmaForCausalLM", &describe, gemma_gguf("gemma"));

}  // namespace mpt::families::gemma
