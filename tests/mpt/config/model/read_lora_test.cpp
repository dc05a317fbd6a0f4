// Tests of peft_config as YAML and as PEFT's file, and of the settings that are refused.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/linear_layers.hpp>
#include <mpt/config/model/read_lora.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/support/files.hpp>
#include <support/golden/golden.hpp>

#include "mpt/config/refused_settings.hpp"

namespace read_lora_test {

using names = std::vector<std::string>;

mpt::model_config small() {
  mpt::model_config model;
  model.d_model = 16;
  model.n_heads = 2;
  model.n_layers = 2;
  return model;
}

mpt::lora_config read(std::string const& text, mpt::model_config const& model = small()) {
  auto const document = mpt::make_document(text, "f.yaml", {});
  mpt::config_report report;
  mpt::config_reader reader(document, "model.peft_config", report);
  return read_lora(reader, model);
}

TEST_CASE("peft_config: LLM Foundry's form is read with PEFT's defaults") {
  auto const lora = read(
      "{peft_type: LORA, task_type: CAUSAL_LM, r: 64, lora_alpha: 128, lora_dropout: 0.05, "
      "target_modules: [Wqkv, out_proj, up_proj, down_proj], use_rslora: true, bias: none}");
  CHECK(lora == mpt::lora_config{.rank = 64,
                                 .alpha = 128,
                                 .dropout = 0.05,
                                 .rank_stabilised = true,
                                 .targets = {"Wqkv", "out_proj", "up_proj", "down_proj"}});
  CHECK(read("{peft_type: LORA}") == mpt::lora_config{.targets = {"Wqkv"}});
}

TEST_CASE("peft_config: all-linear is every linear layer of the blocks") {
  CHECK(read("{target_modules: all-linear}").targets ==
        names{"Wqkv", "out_proj", "up_proj", "down_proj"});
  auto other = small();
  other.attn.fused_qkv = false;
  other.ffn_type = mpt::ffn_kind::mptglu;
  CHECK(read("{target_modules: all-linear}", other).targets ==
        names{"Wq", "Wk", "Wv", "out_proj", "up_proj", "gate_proj", "down_proj"});
}

TEST_CASE("peft_config: unknown and unsupported settings are refused by name") {
  for (auto const& example : test::refused_settings("peft_config"))
    CHECK(test::message_of([&] { static_cast<void>(read(example.text)); }) == example.expected);
}

TEST_CASE("adapter_config.json: PEFT's file is read, and a written one is read back equal") {
  auto const folder = test::golden_folder() / "lora" / "stable";
  CHECK(mpt::is_adapter_folder(folder));
  CHECK(!mpt::is_adapter_folder(test::golden_folder()));
  auto const lora = mpt::from_peft_json(mpt::read_adapter_json(folder), small(), "golden");
  CHECK(lora == mpt::lora_config{.rank = 3,
                                 .alpha = 2,
                                 .dropout = 0.1,
                                 .rank_stabilised = true,
                                 .targets = {"Wqkv", "blocks.0.ffn.down_proj"}});
  auto const json = mpt::to_peft_json(lora, "/models/base");
  CHECK(mpt::from_peft_json(json, small(), "ours") == lora);
  CHECK(json.at("base_model_name_or_path") == "/models/base");
  CHECK(mpt::to_peft_json(lora, "").at("base_model_name_or_path").is_null());
}

TEST_CASE("adapter_config.json: ranks and alphas by layer are read and written") {
  auto const lora = read(
      "{target_modules: [Wqkv, out_proj], r: 4, rank_pattern: {0.attn.Wqkv: 2, out_proj: 6}, "
      "alpha_pattern: {transformer.blocks.1.attn.Wqkv: 64, out_proj: 0.5}}");
  CHECK(mpt::lora_rank(lora, "transformer.blocks.0.attn.Wqkv") == 2);
  CHECK(mpt::lora_rank(lora, "transformer.blocks.1.attn.Wqkv") == 4);
  CHECK(mpt::lora_rank(lora, "transformer.blocks.1.attn.out_proj") == 6);
  CHECK(mpt::lora_scale(lora, "transformer.blocks.0.attn.Wqkv") == 4);
  CHECK(mpt::lora_scale(lora, "transformer.blocks.1.attn.Wqkv") == 16);
  CHECK(mpt::lora_scale(lora, "transformer.blocks.0.attn.out_proj") == 0.5 / 6);
  auto const json = mpt::to_peft_json(lora, "");
  CHECK(json.at("rank_pattern").at("out_proj") == 6);
  CHECK(json.at("alpha_pattern").at("transformer.blocks.1.attn.Wqkv") == 64);
  auto const reread = mpt::from_peft_json(json, small(), "ours");
  for (auto const& layer : mpt::linear_layers(small())) {
    CHECK(mpt::lora_rank(reread, layer.name) == mpt::lora_rank(lora, layer.name));
    CHECK(mpt::lora_scale(reread, layer.name) == mpt::lora_scale(lora, layer.name));
  }
  CHECK_FALSE(mpt::to_peft_json({.targets = {"Wqkv"}}, "").contains("rank_pattern"));
}

TEST_CASE("peft_config of a GPT-2: a pattern's name counts for the layers that have adapters") {
  auto model = small();
  model.family = "gpt2";
  auto const lora = read("{target_modules: [attn.c_proj], r: 4, rank_pattern: {c_proj: 2}}", model);
  CHECK(mpt::lora_rank(lora, "transformer.blocks.0.attn.out_proj") == 2);
  CHECK(lora.rank_pattern.size() == 1);
  CHECK(test::message_of([&] {
          (void)read("{target_modules: [attn.c_proj], rank_pattern: {c_proj: 2, attn.c_proj: 3}}",
                     model);
        }) ==
        "f.yaml:1:47: model.peft_config.rank_pattern: gives transformer.h.0.attn.c_proj two "
        "values, 2 and 3; name each layer once");
  CHECK(test::contains(test::message_of([&] {
                         (void)read("{target_modules: [c_attn], rank_pattern: {c_proj: 2}}", model);
                       }),
                       "'c_proj' names no layer with an adapter"));
}

/// The error for a trained adapter with this setting added to the usual ones; "" when it is read.
std::string refusal(std::string const& key, nlohmann::json const& value) {
  auto json = mpt::to_peft_json({.targets = {"Wqkv"}}, "");
  json[key] = value;
  return test::message_of([&] { (void)mpt::from_peft_json(json, small(), "a.json"); });
}

TEST_CASE("adapter_config.json: settings that do not change a trained adapter are accepted") {
  using nlohmann::json;
  std::vector<std::pair<std::string, json>> const harmless = {
      {"init_lora_weights", "gaussian"},
      {"init_lora_weights", "eva"},
      {"init_lora_weights", "orthogonal"},
      {"init_lora_weights", false},
      {"fan_in_fan_out", true},  // PEFT sets it to false beside linear layers
      {"loftq_config", {{"loftq_bits", 4}}},
      {"eva_config", {{"rho", 2.0}}},
      {"layers_pattern", "blocks"},
      {"megatron_core", "megatron.core"},
      {"qalora_group_size", 16},
      {"peft_version", "0.21.2"},
      {"use_dora", false},
      {"modules_to_save", nullptr},
      {"rank_pattern", json::object()},
      {"a_key_of_a_later_version", nullptr}};
  for (auto const& setting : harmless) {
    CAPTURE(setting.first);
    CHECK(refusal(setting.first, setting.second).empty());
  }
}

TEST_CASE(
    "adapter_config.json: a trained adapter that is not plain LoRA is refused with advice to merge "
    "it") {
  using nlohmann::json;
  std::string const advice =
      "; merge it into its model by PEFT (PeftModel.from_pretrained(model, folder)"
      ".merge_and_unload().save_pretrained(other)) and use the merged model";
  CHECK(refusal("use_dora", true) ==
        "a.json: use_dora is true: is not supported, and without it the adapter's results would "
        "differ" +
            advice);
  std::string const other_advice =
      "; save it again where it was trained: as plain LoRA (PEFT's "
      "save_pretrained(folder, path_initial_model_for_weight_conversion=...)), or merged into its "
      "model";
  for (std::string const scheme : {"pissa", "olora", "pissa_niter_16", "corda", "loftq", "lora_ga"})
    CHECK(refusal("init_lora_weights", scheme) ==
          "a.json: init_lora_weights is \"" + scheme +
              "\": its initialisation changed the model's own weights, and it fits only those" +
              (scheme == "pissa" || scheme == "olora" ? advice : other_advice));
  std::vector<std::pair<std::string, json>> const refused_settings = {
      {"use_qalora", true},
      {"use_bdlora", {{"nblocks", 2}}},
      {"lora_bias", true},
      {"bias", "all"},
      {"task_type", "SEQ_CLS"},
      {"peft_type", "ADALORA"},
      {"modules_to_save", {"lm_head"}},
      {"layers_to_transform", {0}},
      {"layer_replication", {{0, 1}}},
      {"exclude_modules", {"0.attn.Wqkv"}},
      {"target_parameters", {"x"}},
      {"trainable_token_indices", {5}},
      {"alora_invocation_tokens", {1, 2}},
      {"target_modules", ".*Wqkv"},
      {"alpha_pattern", {{".*Wqkv", 64}}},
      {"a_key_of_a_later_version", 7}};
  for (auto const& setting : refused_settings) {
    CAPTURE(setting.first);
    auto const message = refusal(setting.first, setting.second);
    CHECK(message.starts_with("a.json: " + setting.first + " is "));
    CHECK(message.ends_with(advice));
  }
}

}  // namespace read_lora_test
