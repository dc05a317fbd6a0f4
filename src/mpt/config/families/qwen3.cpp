// Qwen3: Llama's form with norms of each head's queries and keys, and heads of any width.
#include <mpt/config/model/llama_form.hpp>

namespace mpt::families::qwen3 {
namespace {

void describe(family_form& form, model_config& model) {
  if (!form.writes())
    form.require(!form.value("head_dim").is_null(), "head_dim",
                 "is missing; a model's size is not guessed");
  describe_llama(form, model, {.key_heads = 32, .max_positions = 32768});
  describe_optional_window(form, model);
  form.attention_bias(model, false);
  if (form.writes()) return form.put("head_dim", head_dim(model));
  model.attn.qk_gn = true;
  model.attn.qk_norm_eps = model.norm_eps;
}

}  // namespace

extern constinit model_family const table = llama_family(
    "qwen3", "Qwen3ForCausalLM", &describe, {.architecture = "qwen3", .has_head_width = true});

}  // namespace mpt::families::qwen3
