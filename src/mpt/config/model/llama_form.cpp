#include <mpt/config/model/llama_form.hpp>

#include <mpt/yaml/node.hpp>

namespace mpt {

void describe_llama(family_form& form, model_config& model, llama_defaults const& defaults) {
  form.sizes(model);
  std::int64_t key_heads = kv_heads(model);
  bool const takes_default =
      !form.writes() && defaults.key_heads > 0 && !form.json().contains("num_key_value_heads");
  if (form.writes())
    form.field("num_key_value_heads", key_heads, model.n_heads);
  else
    form.optional_field("num_key_value_heads", key_heads, model.n_heads);
  if (takes_default) key_heads = defaults.key_heads;
  form.optional_count("head_dim", model.head_dim);
  form.field("max_position_embeddings", model.max_seq_len, defaults.max_positions);
  form.epsilon("rms_norm_eps", model.norm_eps, defaults.norm_eps);
  form.field("tie_word_embeddings", model.tie_word_embeddings, false);
  form.probability("attention_dropout", model.attn.attn_pdrop, 0);
  form.initial_values(model.init, false);
  form.activation("hidden_act", model.ffn_act_fn, "silu");
  if (!defaults.has_experts)
    for (char const* const key : {"num_experts", "num_local_experts"})
      form.require_off(key, "this family has no experts");
  if (form.writes()) return form.rotary(model, defaults.rotary);
  form.require(model.n_heads <= model.d_model, "num_attention_heads", "is larger than hidden_size");
  form.require(model.head_dim || model.d_model % model.n_heads == 0, "num_attention_heads",
               model.n_heads, " must divide hidden_size ", model.d_model,
               ", since the file has no head_dim");
  form.require(key_heads <= model.n_heads && model.n_heads % key_heads == 0, "num_key_value_heads",
               key_heads, " must divide num_attention_heads ", model.n_heads);
  if (key_heads != model.n_heads) model.attn.kv_n_heads = key_heads;
  if (is_default_head_dim(model)) model.head_dim.reset();
  model.ffn_type = ffn_kind::mptglu;
  model.norm_type = norm_kind::low_precision_rmsnorm;
  model.attn.norm_type = norm_kind::low_precision_rmsnorm;
  model.no_bias = true;
  model.learned_pos_emb = false;
  form.rotary(model, defaults.rotary);
}

void describe_optional_window(family_form& form, model_config& model) {
  if (form.writes()) {
    bool const has_window = model.attn.sliding_window_size >= 0;
    form.put("use_sliding_window", has_window);
    form.put("max_window_layers", has_window ? 0 : model.n_layers);
    if (has_window) form.put("sliding_window", model.attn.sliding_window_size + 1);
    return;
  }
  bool has_window = false;
  form.field("use_sliding_window", has_window, false);
  auto const window = read_window(form);
  constexpr std::int64_t default_first = 28;
  auto const first = form.value("max_window_layers");
  form.require(first.is_null() || first.is_number_integer(), "max_window_layers",
               "expected a number of layers, found ", printable(first.dump()));
  std::int64_t const full_layers = first.is_null() ? default_first : first.get<std::int64_t>();
  auto const listed = read_layer_types(form, model.n_layers);
  if (!has_window || !window)
    return form.require(!listed.value_or(false), "layer_types", "is sliding_attention, but ",
                        has_window ? "sliding_window" : "use_sliding_window",
                        " gives no window; change one of them");
  form.require(listed || full_layers <= 0 || full_layers >= model.n_layers, "max_window_layers",
               "attention has a window only in layers ", full_layers,
               " and later, which is not supported");
  bool const counted = full_layers < model.n_layers;
  if (listed.value_or(counted)) model.attn.sliding_window_size = *window - 1;
  if (listed && !*listed && counted)
    form.add_note(
        "use_sliding_window has no effect, since transformers goes by layer_types, which is "
        "full_attention in each layer; change that (null: by max_window_layers)");
}

std::optional<std::int64_t> read_window(family_form& form) {
  constexpr std::int64_t default_window = 4096;
  if (!form.json().contains("sliding_window")) {
    static_cast<void>(form.value("sliding_window"));
    return default_window;
  }
  std::optional<std::int64_t> window;
  form.optional_count("sliding_window", window);
  return window;
}

std::optional<bool> read_layer_types(family_form& form, std::int64_t layers) {
  auto const types = form.value("layer_types");
  if (types.is_null()) return std::nullopt;
  form.require(types.is_array() && !types.empty(), "layer_types",
               "expected a list of the layers' kinds of attention, found ",
               printable(types.dump()));
  form.require(std::ssize(types) == layers, "layer_types", "names ", types.size(),
               " layers, but num_hidden_layers is ", layers);
  for (auto const& type : types) {
    form.require(type == "full_attention" || type == "sliding_attention", "layer_types",
                 "expected full_attention or sliding_attention, found ", printable(type.dump()));
    form.require(type == types.front(), "layer_types",
                 "attention has a window in some of the layers, which is not supported");
  }
  return types.front() == "sliding_attention";
}

}  // namespace mpt
