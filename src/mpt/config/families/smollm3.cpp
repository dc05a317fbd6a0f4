// SmolLM3: Llama's form with layers without positions.
#include <mpt/config/model/llama_form.hpp>
#include <mpt/yaml/node.hpp>

namespace mpt::families::smollm3 {
namespace {

constexpr rotary_keys keys{.default_theta = 2000000};

/// `no_rope_layers`: 1 for a layer that has rotary positions, 0 for one that has none; absent:
/// every `no_rope_layer_interval`-th layer has none.
void describe_positions(family_form& form, model_config& model) {
  auto const count = static_cast<std::size_t>(model.n_layers);
  if (form.writes()) {
    std::vector<int> turns(count, 1);
    for (std::size_t i = 0; i < model.layers.size(); ++i) turns[i] = model.layers[i].nope ? 0 : 1;
    form.put("no_rope_layers", turns);
    return;
  }
  std::int64_t interval = 0;
  form.optional_field("no_rope_layer_interval", interval, 4);
  auto listed = form.value("no_rope_layers");
  if (listed.is_null())
    for (std::int64_t i = 0; i < model.n_layers; ++i)
      listed.push_back((i + 1) % interval == 0 ? 0 : 1);
  form.require(listed.is_array() && listed.size() == count, "no_rope_layers", "expected a list of ",
               count, " numbers, one for each layer, found ", printable(listed.dump()));
  for (std::size_t i = 0; i < count; ++i) {
    auto const turns = listed[i];
    form.require(turns == 0 || turns == 1, "no_rope_layers",
                 "expected 1 for a layer with rotary "
                 "positions and 0 for one without, found ",
                 printable(turns.dump()));
    if (turns == 1) continue;
    model.layers.resize(count);
    model.layers[i].nope = true;
  }
}

void describe(family_form& form, model_config& model) {
  describe_llama(form, model,
                 {.key_heads = 4, .max_positions = 32768, .ties_embeddings = true, .rotary = keys});
  form.attention_bias(model, false);
  form.require_off("mlp_bias", "biases in the feed-forward layers are not supported");
  describe_positions(form, model);
  std::vector<bool> usual(static_cast<std::size_t>(model.n_layers));
  for (std::size_t i = 0; i < model.layers.size(); ++i) usual[i] = model.layers[i].nope;
  describe_optional_window(form, model, usual, std::nullopt);
}

}  // namespace

extern constinit model_family const table = llama_family(
    "smollm3", "SmolLM3ForCausalLM", &describe,
    {.architecture = "smollm3",
     .interleaves_rotation = true,
     .remove_held =
         [](model_config& model) {
           bool is_every_fourth = std::ssize(model.layers) == model.n_layers;
           for (std::size_t i = 0; i < model.layers.size(); ++i)
             is_every_fourth =
                 is_every_fourth && model.layers[i] == layer_override{.nope = (i + 1) % 4 == 0};
           if (is_every_fourth) model.layers.clear();
         }},
    keys);

}  // namespace mpt::families::smollm3
