// Qwen3: Llama's form with norms of each head's queries and keys, and heads of any width.
#include <mpt/config/model/llama_form.hpp>

namespace mpt::families::qwen3 {
namespace {

void describe(family_form& form, model_config& model) {
  std::int64_t width = head_dim(model);
  form.count("head_dim", width);
  describe_llama(form, model, {.key_heads = 32, .max_positions = 32768});
  describe_last_windows(form, model);
  form.attention_bias(model, false);
  if (form.writes()) return;
  model.attn.qk_gn = true;
  model.attn.qk_norm_eps = model.norm_eps;
}

}  // namespace

extern constinit model_family const table = llama_family(
    "qwen3", "Qwen3ForCausalLM", &describe,
    {.architecture = "qwen3", .has_head_width = true, .remove_held = &remove_query_key_norms});

}  // namespace mpt::families::qwen3
