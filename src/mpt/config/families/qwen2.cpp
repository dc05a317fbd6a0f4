// Qwen2 and Qwen2.5: Llama's form with biases of queries, keys and values.
#include <mpt/config/model/llama_form.hpp>

namespace mpt::families::qwen2 {
namespace {

void describe(family_form& form, model_config& model) {
  describe_llama(form, model, {.key_heads = 32, .max_positions = 32768});
  describe_last_windows(form, model);
  if (!form.writes()) model.attention_bias = true;
}

}  // namespace

extern constinit model_family const table =
    llama_family("qwen2", "Qwen2ForCausalLM", &describe,
                 {.architecture = "qwen2", .attention_biases = gguf_biases::required});

}  // namespace mpt::families::qwen2
