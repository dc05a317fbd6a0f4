// Mistral 7B and its successors of the same form, with a window of attention in all layers, some or
// none.
#include <mpt/config/model/llama_form.hpp>

namespace mpt::families::mistral {
namespace {

void describe(family_form& form, model_config& model) {
  describe_llama(form, model, {.key_heads = 8, .max_positions = 4096 * 32});
  if (form.writes()) return static_cast<void>(write_windows(form, model));
  auto const size = read_window(form, 4096);
  auto const listed = read_layer_types(form, model.n_layers);
  bool const is_listed = listed && std::ranges::find(*listed, true) != listed->end();
  form.require(size || !is_listed, "layer_types",
               "is sliding_attention, but sliding_window gives no window; change one of them");
  std::vector<bool> const everywhere(static_cast<std::size_t>(model.n_layers), true);
  if (size) set_windows(model, listed.value_or(everywhere), *size);
}

}  // namespace

extern constinit model_family const table =
    llama_family("mistral", "MistralForCausalLM", &describe, llama_gguf);

}  // namespace mpt::families::mistral
