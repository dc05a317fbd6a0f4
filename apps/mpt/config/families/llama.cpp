// Llama 1 to 3, and models that were published in its form.
#include <mpt/config/llama_form.hpp>

namespace mpt::families::llama {
namespace {

void describe(family_form& form, model_config& model) {
  describe_llama(form, model);
  bool has_bias = has_attention_bias(model);
  form.field("attention_bias", has_bias, false);
  form.off("mlp_bias", "biases in the feed-forward layers are not supported");
  if (form.writes() || !has_bias) return;
  model.attention_bias = true;
  model.out_proj_bias = true;
}

}  // namespace

extern constinit model_family const table = llama_family("llama", "LlamaForCausalLM", &describe);

}  // namespace mpt::families::llama
