// Mistral 7B and its successors of the same form, with a window of attention in all layers or none.
#include <mpt/config/model/llama_form.hpp>

namespace mpt::families::mistral {
namespace {

void describe(family_form& form, model_config& model) {
  describe_llama(form, model, {.key_heads = 8, .max_positions = 4096 * 32});
  auto& window = model.attn.sliding_window_size;  // tokens before a token, without itself
  if (form.writes())
    return form.put("sliding_window", window < 0 ? nlohmann::json() : nlohmann::json(window + 1));
  auto const size = read_window(form);
  bool const has_window = read_layer_types(form, model.n_layers).value_or(size.has_value());
  form.require(size || !has_window, "layer_types",
               "is sliding_attention, but sliding_window gives no window; change one of them");
  if (has_window) window = *size - 1;
}

}  // namespace

extern constinit model_family const table =
    llama_family("mistral", "MistralForCausalLM", &describe, llama_gguf);

}  // namespace mpt::families::mistral
