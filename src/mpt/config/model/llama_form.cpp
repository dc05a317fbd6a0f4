#include <mpt/config/model/llama_form.hpp>

#include <algorithm>
#include <functional>
#include <utility>

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
  form.epsilon(defaults.eps_key, model.norm_eps, defaults.eps);
  form.field("tie_word_embeddings", model.tie_word_embeddings, defaults.ties_embeddings);
  form.probability("attention_dropout", model.attn.attn_pdrop, 0);
  form.initial_values(model.init, false, defaults.deviation);
  form.activation(defaults.activation_key, model.ffn_act_fn, defaults.activation);
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

void set_layer_norms(model_config& model) {
  model.norm_type = norm_kind::low_precision_layernorm;
  model.attn.norm_type = norm_kind::low_precision_layernorm;
  if (model.no_bias) model.norm_bias = true;
}

void describe_window(family_form& form, model_config& model) {
  if (form.writes()) return static_cast<void>(write_windows(form, model));
  std::optional<std::int64_t> window;
  form.optional_count("sliding_window", window);
  if (window) model.attn.sliding_window_size = *window - 1;
}

namespace {

[[nodiscard]] bool has_any(std::vector<bool> const& flags) {
  return std::ranges::find(flags, true) != flags.end();
}

}  // namespace

void describe_optional_window(family_form& form, model_config& model,
                              std::vector<bool> const& counted, std::optional<std::int64_t> usual) {
  if (form.writes()) return form.put("use_sliding_window", has_any(write_windows(form, model)));
  bool is_used = false;
  form.field("use_sliding_window", is_used, false);
  auto const window = read_window(form, usual);
  auto const listed = read_layer_types(form, model.n_layers);
  bool const is_listed = listed && has_any(*listed);
  if (!is_used || !window)
    return form.require(!is_listed, "layer_types", "is sliding_attention, but ",
                        is_used ? "sliding_window" : "use_sliding_window",
                        " gives no window; change one of them");
  set_windows(model, listed.value_or(counted), *window);
  if (listed && !is_listed && has_any(counted))
    form.add_note(
        "use_sliding_window has no effect, since transformers goes by layer_types, which is "
        "full_attention in each layer; change that (null: by max_window_layers)");
}

void describe_last_windows(family_form& form, model_config& model) {
  constexpr std::int64_t default_first = 28;
  auto const first = form.value("max_window_layers");
  form.require(first.is_null() || first.is_number_integer(), "max_window_layers",
               "expected a number of layers, found ", printable(first.dump()));
  std::int64_t const full_layers = first.is_null() ? default_first : first.get<std::int64_t>();
  std::vector<bool> counted;
  for (std::int64_t i = 0; i < model.n_layers; ++i) counted.push_back(i >= full_layers);
  constexpr std::int64_t default_window = 4096;
  describe_optional_window(form, model, counted, default_window);
  bool const has_window = form.writes() && form.json().at("use_sliding_window") == true;
  form.put("max_window_layers", has_window ? 0 : model.n_layers);
}

void describe_layer_windows(family_form& form, model_config& model, std::vector<bool> const& usual,
                            std::int64_t size) {
  if (form.writes()) return static_cast<void>(write_windows(form, model));
  auto const window = read_window(form, size);
  auto const has_window = read_layer_types(form, model.n_layers).value_or(usual);
  form.require(window || !has_any(has_window), "sliding_window",
               "is null, but some layers have a window; give its number of tokens");
  set_windows(model, has_window, window.value_or(0));
}

std::optional<std::int64_t> read_window(family_form& form, std::optional<std::int64_t> usual) {
  if (!form.json().contains("sliding_window")) {
    static_cast<void>(form.value("sliding_window"));
    return usual;
  }
  std::optional<std::int64_t> window;
  form.optional_count("sliding_window", window);
  return window;
}

std::optional<std::vector<bool>> read_layer_types(family_form& form, std::int64_t layers) {
  auto const types = form.value("layer_types");
  if (types.is_null()) return std::nullopt;
  form.require(types.is_array() && !types.empty(), "layer_types",
               "expected a list of the layers' kinds of attention, found ",
               printable(types.dump()));
  form.require(std::ssize(types) == layers, "layer_types", "names ", types.size(),
               " layers, but num_hidden_layers is ", layers);
  std::vector<bool> has_window;
  for (auto const& type : types) {
    form.require(type == "full_attention" || type == "sliding_attention", "layer_types",
                 "expected full_attention or sliding_attention, found ", printable(type.dump()));
    has_window.push_back(type == "sliding_attention");
  }
  return has_window;
}

void set_windows(model_config& model, std::vector<bool> const& has_window, std::int64_t size) {
  if (std::ranges::find(has_window, false) == has_window.end()) {
    model.attn.sliding_window_size = size - 1;  // tokens before a token, without itself
    return;
  }
  if (!has_any(has_window)) return;
  model.layers.resize(has_window.size());
  for (std::size_t i = 0; i < has_window.size(); ++i)
    if (has_window[i]) model.layers[i].sliding_window_size = size - 1;
}

std::vector<bool> write_windows(family_form& form, model_config const& model) {
  std::vector<bool> has_window;
  nlohmann::json types = nlohmann::json::array();
  nlohmann::json window;
  for (std::int64_t i = 0; i < model.n_layers; ++i) {
    auto const size = attention_of_layer(model, i).sliding_window_size;
    has_window.push_back(size >= 0);
    types.push_back(size >= 0 ? "sliding_attention" : "full_attention");
    if (size >= 0) window = size + 1;
  }
  form.put("sliding_window", window);
  if (std::ranges::adjacent_find(has_window, std::not_equal_to{}) != has_window.end())
    form.put("layer_types", types);
  return has_window;
}

void remove_query_key_norms(model_config& model) {
  if (model.attn.qk_norm_eps == model.norm_eps) model.attn.qk_gn = model.attn.qk_ln = false;
}

}  // namespace mpt
