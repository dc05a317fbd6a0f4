#include <mpt/config/model/gemma_form.hpp>

#include <cmath>

#include <mpt/config/model/hf_attention.hpp>
#include <mpt/yaml/node.hpp>

namespace mpt {
namespace {

[[nodiscard]] double inverse_root(double number) { return 1 / std::sqrt(number); }

/// The number whose inverse root is `scale`, a whole one where there is such a number.
[[nodiscard]] double scalar_of(double scale) {
  double const number = 1 / (scale * scale);
  double const whole = std::round(number);
  return inverse_root(whole) == scale ? whole : number;
}

}  // namespace

void describe_gemma(family_form& form, model_config& model, llama_defaults defaults) {
  std::int64_t width = head_dim(model);
  form.count("head_dim", width);
  defaults.ties_embeddings = true;
  defaults.activation = "gelu_pytorch_tanh";
  describe_llama(form, model, defaults);
  form.attention_bias(model, false);
  form.require_off("use_bidirectional_attention",
                   "a model whose tokens see later ones is not supported");
  if (form.writes()) return;
  model.norm_unit_offset = true;
  model.embedding_scale = std::sqrt(static_cast<double>(model.d_model));
}

void describe_sandwich(family_form& form, model_config& model) {
  double const usual = inverse_root(static_cast<double>(head_dim(model)));
  double scalar = scalar_of(model.attn.softmax_scale.value_or(usual));
  if (form.writes()) return form.put("query_pre_attn_scalar", detail::json_number(scalar));
  form.field("query_pre_attn_scalar", scalar, 256);
  form.require(scalar > 0, "query_pre_attn_scalar", "expected a number above 0, found ", scalar);
  model.attn.softmax_scale = inverse_root(scalar);
  model.branch_norms = norm_position::both;
}

void describe_cap(family_form& form, std::string_view key, std::optional<double>& cap,
                  std::optional<double> usual) {
  if (form.writes()) return form.put(key, cap ? nlohmann::json(*cap) : nlohmann::json());
  auto const found = form.value(key);
  cap = form.json().contains(key) ? std::nullopt : usual;
  if (found.is_null()) return;
  form.require(found.is_number() && found > 0, key,
               "expected a number above 0, or null for none, "
               "found ",
               printable(found.dump()));
  cap = found.get<double>();
}

std::vector<bool> all_but_every(std::int64_t period, std::int64_t layers) {
  std::vector<bool> out;
  for (std::int64_t i = 0; i < layers; ++i) out.push_back(period > 0 && (i + 1) % period != 0);
  return out;
}

void remove_gemma_settings(model_config& model) {
  auto const width = static_cast<double>(model.d_model);
  if (model.embedding_scale == std::sqrt(width)) model.embedding_scale = 1;
  model.norm_unit_offset = false;
  if (model.family == "gemma") return;
  model.branch_norms = norm_position::input;
  bool const is_third = model.family == "gemma3_text";
  if (is_third)
    remove_query_key_norms(model);
  else if (model.attn.attn_logit_softcapping && model.final_logit_softcapping)
    model.attn.attn_logit_softcapping = model.final_logit_softcapping = std::nullopt;
  bool const is_largest = model.n_layers == (is_third ? 62 : 46);  // Gemma 2 27B, Gemma 3 27B
  if (is_largest &&
      model.attn.softmax_scale == inverse_root(width / static_cast<double>(model.n_heads)))
    model.attn.softmax_scale.reset();
  auto const has_window = all_but_every(is_third ? 6 : 2, std::ssize(model.layers));
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    auto expected = model.layers[i];
    if (!has_window[i]) expected = {};
    if (has_window[i] && is_third) expected.rope_theta = 10000;
    if (has_window[i] && !expected.sliding_window_size) return;
    if (expected != model.layers[i]) return;
  }
  model.layers.clear();
}

}  // namespace mpt
