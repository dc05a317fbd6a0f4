// Llama 1 to 3, and models that were published in its form.
#include <mpt/config/model/llama_form.hpp>

namespace mpt::families::llama {
namespace {

void describe(family_form& form, model_config& model) {
  describe_llama(form, model);
  form.attention_bias(model, false);
  form.require_off("mlp_bias", "biases in the feed-forward layers are not supported");
}

}  // namespace

extern constinit model_family const table =
    llama_family("llama", "LlamaForCausalLM", &describe, llama_gguf);

}  // namespace mpt::families::llama
