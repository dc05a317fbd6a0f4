// Gemma 3's models of text: Gemma's form with norms on both sides and of each head's queries and
// keys, and a window in five of six layers, whose rotary positions have a base of their own.
#include <mpt/config/model/gemma_form.hpp>
#include <mpt/yaml/node.hpp>

namespace mpt::families::gemma3_text {
namespace {

constexpr rotary_keys keys{.default_theta = 1000000, .part = "full_attention"};

/// The base of the layers with a window: `rope_local_base_freq`, or in its part of rope_parameters.
[[nodiscard]] double read_local_theta(family_form& form) {
  double theta = 0;
  form.field("rope_local_base_freq", theta, 10000);
  auto const parameters = form.value("rope_parameters");
  if (!parameters.is_object()) return theta;
  form.require(parameters.empty() || parameters.contains("full_attention") ||
                   parameters.contains("sliding_attention"),
               "rope_parameters", "expected the parts full_attention and sliding_attention");
  auto const part = parameters.value("sliding_attention", nlohmann::json());
  if (!part.is_object()) return theta;
  for (auto const& [key, value] : part.items())
    form.require(key == "rope_theta" || (key == "rope_type" && value == "default"),
                 "rope_parameters", "sliding_attention: ", printable(key), " is ",
                 printable(value.dump()),
                 "; layers with a window have positions of type default here");
  return part.contains("rope_theta") && part["rope_theta"].is_number()
             ? part["rope_theta"].get<double>()
             : theta;
}

void describe(family_form& form, model_config& model) {
  describe_gemma(form, model,
                 {.key_heads = 4,
                  .max_positions = 131072,
                  .activation_key = "hidden_activation",
                  .rotary = keys});
  describe_sandwich(form, model);
  describe_cap(form, "final_logit_softcapping", model.final_logit_softcapping, {});
  form.require_off("attn_logit_softcapping",
                   "transformers' Gemma3ForCausalLM caps no scores; leave it out");
  std::int64_t period = 0;
  if (!form.writes()) form.optional_field("sliding_window_pattern", period, 6);
  describe_layer_windows(form, model, all_but_every(period, model.n_layers), 4096);
  if (form.writes()) {
    for (auto const& layer : model.layers)
      if (layer.rope_theta) form.put("rope_local_base_freq", *layer.rope_theta);
    return;
  }
  model.attn.qk_gn = true;
  model.attn.qk_norm_eps = model.norm_eps;
  model.layers.resize(static_cast<std::size_t>(model.n_layers));
  double const theta = read_local_theta(form);
  for (std::int64_t i = 0; i < model.n_layers; ++i)
    if (attention_of_layer(model, i).sliding_window_size >= 0)
      model.layers[static_cast<std::size_t>(i)].rope_theta = theta;
  if (std::ranges::all_of(model.layers,
                          [](auto const& layer) { return layer == layer_override{}; }))
    model.layers.clear();
}

}  // namespace

extern constinit model_family const table = llama_family(
    "gemma3_text", "Gemma3ForCausalLM", &describe, gemma_gguf("gemma3"), keys, gemma_layers);

}  // namespace mpt::families::gemma3_text
