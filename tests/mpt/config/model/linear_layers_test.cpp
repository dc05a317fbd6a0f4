// Tests that the layers that may have adapters are those to which the model's builder gives them.
#include <map>
#include <string>

#include <doctest/doctest.h>

#include <mpt/config/model/linear_layers.hpp>
#include <mpt/hf/names.hpp>

namespace linear_layers_test {

mpt::model_config small() {
  mpt::model_config model;
  model.d_model = 24;
  model.n_heads = 6;
  model.n_layers = 2;
  model.vocab_size = 8;
  model.max_seq_len = 4;
  return model;
}

TEST_CASE("linear_layers: names and shapes equal the model's parameters in each form") {
  auto gated = small();
  gated.ffn_type = mpt::ffn_kind::mptglu;
  gated.attn.kv_n_heads = 2;
  gated.attn.fused_qkv = false;
  auto reusing = small();
  reusing.attn.kv_n_heads = 3;
  reusing.layers.resize(2);
  reusing.layers[1].reuse_kv_layer_idx = -1;
  for (auto config : {small(), gated, reusing}) {
    config.lora = mpt::lora_config{.rank = 2};
    auto const layers = linear_layers(config);
    for (auto const& layer : layers) config.lora->targets.push_back(layer.name);
    std::map<std::string, std::vector<parallel::index>> shapes;
    std::int64_t adapter_parameters = 0, model_parameters = 0;
    for (auto const& [name, extents] : mpt::hf::shapes_of(config)) {
      std::int64_t size = 1;
      for (auto const extent : extents) size *= extent;
      (mpt::is_adapter(name) ? adapter_parameters : model_parameters) += size;
      shapes[name] = extents;
    }
    for (auto const& layer : layers) {
      auto const& [name, out, in] = layer;
      CAPTURE(layer.name);
      CHECK(shapes.at(name + ".weight") == std::vector<parallel::index>{out, in});
      CHECK(shapes.at(name + ".lora_A.weight") == std::vector<parallel::index>{2, in});
      CHECK(shapes.at(name + ".lora_B.weight") == std::vector<parallel::index>{out, 2});
    }
    CHECK(adapter_parameters == adapter_parameter_count(config));
    CHECK(model_parameters == parameter_count(config));
  }
  CHECK(adapter_parameter_count(small()) == 0);
}

}  // namespace linear_layers_test
