#include <mpt/config/model/sizes.hpp>

#include <string>

namespace mpt {

model_config named_size(std::string_view name) {
  std::string_view const short_name = name.starts_with("mpt-") ? name.substr(4) : name;
  std::string known;
  for (model_size const& size : model_sizes) {
    if (size.name == short_name) {
      model_config model;
      model.d_model = size.d_model;
      model.n_heads = size.n_heads;
      model.n_layers = size.n_layers;
      return model;
    }
    known.append(known.empty() ? "" : ", ").append(size.name);
  }
  parallel::fail("'", name, "' is not the name of a model size; there are ", known);
}

model_config hub_form(model_config model) {
  model.learned_pos_emb = false;
  model.attn.alibi = true;
  model.no_bias = true;
  model.attention_bias.reset();
  model.vocab_size = 50432;
  return model;
}

}  // namespace mpt
