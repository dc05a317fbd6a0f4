// Freezing and grouping parameters by patterns.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/model/model.hpp>
#include <mpt/train/setup/parameter_groups.hpp>

namespace parameter_groups_test {

mpt::model_config small() {
  mpt::model_config config;
  config.d_model = 8;
  config.n_heads = 2;
  config.n_layers = 2;
  config.max_seq_len = 4;
  config.vocab_size = 16;
  return config;
}

TEST_CASE("parameter groups: learning rates have the names of groups") {
  mpt::optimizer_config config;
  config.name = "decoupled_lionw";
  config.lr = 0.5;
  config.groups.resize(1);
  config.groups[0].lr = 2;
  CHECK(mpt::learning_rates(config, 0.5) ==
        std::vector<std::pair<std::string, double>>{{"DecoupledLionW/group0", 0.25},
                                                    {"DecoupledLionW/group1", 1}});
  config.groups.clear();
  config.name = "muon";
  config.muon.emplace().learning_rate = 3;
  CHECK(mpt::learning_rates(config, 1) == std::vector<std::pair<std::string, double>>{
                                              {"DecoupledAdamW/group0", 0.5}, {"Muon/group0", 3}});
}

/// The group of each parameter by name, -1 for frozen ones.
std::map<std::string, int> group_by_name(mpt::optimizer_config const& optimizer,
                                         std::vector<std::string> const& frozen = {},
                                         mpt::model_config const& model = small()) {
  mpt::model<float> net(model);
  auto config = optimizer;
  config.frozen_layers = frozen;
  auto const groups = groups_of(config, net);
  CHECK(groups.optimizers.size() == 1 + optimizer.groups.size() + (optimizer.muon ? 1 : 0));
  std::map<std::string, int> out;
  net.visit_units([&](std::string const&, auto& layer, auto const&, auto const&) {
    layer.visit_parameters([&](auto const& p) {
      auto const key = groups.key_of(p.name);
      out[p.name] = key.trainable ? key.group : -1;
    });
  });
  return out;
}

TEST_CASE("parameter groups: where there are adapters, only they are trained") {
  auto model = small();
  model.lora = mpt::lora_config{.rank = 2, .targets = {"Wqkv", "down_proj"}};
  mpt::optimizer_config config;
  config.disable_grad = {{"blocks\\.0", "f.yaml"}};
  int trained = 0;
  for (auto const& entry : group_by_name(config, {}, model)) {
    auto const& [name, key] = entry;
    CAPTURE(entry.first);
    bool const adapter = name.find("lora_") != std::string::npos;
    CHECK((key == 0) == (adapter && name.find("blocks.0") == std::string::npos));
    trained += key == 0;
  }
  CHECK(trained == 4 * (model.n_layers - 1));
}

TEST_CASE("parameter groups: Muon trains the matrices of blocks, AdamW the rest") {
  mpt::optimizer_config config;
  config.muon.emplace();
  config.disable_grad = {{"blocks\\.1\\.attn.Wqkv", "f.yaml"}};
  for (auto const& entry : group_by_name(config)) {
    auto const& [name, key] = entry;
    CAPTURE(entry.first);
    bool const matrix = name.find("blocks") != std::string::npos && name.ends_with("weight") &&
                        name.find("norm") == std::string::npos;
    CHECK(key == (name.find("1.attn.Wqkv") != std::string::npos ? -1 : matrix ? 1 : 0));
  }
}

mpt::parameter_group group(std::string pattern) {
  mpt::parameter_group out;
  out.match = {std::move(pattern), "f.yaml:3:5: optimizer.param_groups.0.param_str_match"};
  return out;
}

TEST_CASE("parameter groups: the first matching pattern decides; frozen ones are in no group") {
  mpt::optimizer_config config;
  config.groups = {group("norm"), group("bias$"), group("^model.transformer.blocks.1")};
  config.disable_grad = {{"w[tp]e", "f.yaml"}, {"blocks\\.0\\.attn.*weight", "f.yaml"}};
  auto const keys = group_by_name(config);
  CHECK(keys.size() == 2 + 2 * 12 + 2);
  CHECK(keys.at("transformer.wte.weight") == -1);
  CHECK(keys.at("transformer.wpe.weight") == -1);
  CHECK(keys.at("transformer.blocks.0.attn.Wqkv.weight") == -1);
  CHECK(keys.at("transformer.blocks.0.attn.Wqkv.bias") == 2);
  CHECK(keys.at("transformer.blocks.0.norm_1.bias") == 1);
  CHECK(keys.at("transformer.blocks.0.ffn.up_proj.weight") == 0);
  CHECK(keys.at("transformer.blocks.1.attn.Wqkv.weight") == 3);
  CHECK(keys.at("transformer.blocks.1.attn.Wqkv.bias") == 2);
  CHECK(keys.at("transformer.norm_f.weight") == 1);
}

TEST_CASE("parameter groups: without patterns every parameter is in group 0") {
  for (auto const& [name, key] : group_by_name({})) CHECK(key == 0);
}

TEST_CASE("parameter groups: layer_freezing freezes by whole names") {
  auto const keys = group_by_name({}, {"model.transformer.norm_f.bias"});
  for (auto const& [name, key] : keys) CHECK(key == (name == "transformer.norm_f.bias" ? -1 : 0));
  CHECK_THROWS_WITH_AS(group_by_name({}, {"transformer.norm_f.bias"}),
                       "callbacks.layer_freezing.layer_names: there is no parameter "
                       "transformer.norm_f.bias; their names are like model.transformer.wte.weight",
                       parallel::error);
}

TEST_CASE("parameter groups: a pattern that matches nothing or freezes all is refused") {
  mpt::optimizer_config config;
  config.groups = {group("Norm")};
  CHECK_THROWS_WITH_AS(
      group_by_name(config),
      "f.yaml:3:5: optimizer.param_groups.0.param_str_match: 'Norm' matches no parameter; their "
      "names are like model.transformer.wte.weight",
      parallel::error);
  config.groups = {group("(?<=x)norm")};
  CHECK_THROWS_WITH_AS(
      group_by_name(config),
      "f.yaml:3:5: optimizer.param_groups.0.param_str_match: '(?<=x)norm' is not a regular "
      "expression that is understood here",
      parallel::error);
  config.groups.clear();
  config.disable_grad = {{".", "f.yaml"}};
  CHECK_THROWS_WITH_AS(group_by_name(config),
                       "every parameter is frozen; leave one out of optimizer.disable_grad",
                       parallel::error);
}

}  // namespace parameter_groups_test
