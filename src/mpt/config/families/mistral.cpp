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
  if (size) window = *size - 1;
  if (read_layer_types(form, model.n_layers).value_or(size.has_value()) != size.has_value())
    form.add_note(
        "layer_types has no effect, since transformers' Mistral goes by sliding_window alone");
}

}  // namespace

extern constinit model_family const table =
    llama_family("mistral", "MistralForCausalLM", &describe, llama_gguf);

}  // namespace mpt::families::mistral
