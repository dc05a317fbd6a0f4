// Tests of peft_config as YAML and as PEFT's file, and of the settings that are refused.
#include <string>
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
  auto const json = mpt::to_peft_json(lora, {.name = "/models/base"});
  CHECK(mpt::from_peft_json(json, small(), "ours") == lora);
  CHECK(json.at("base_model_name_or_path") == "/models/base");
  CHECK(mpt::to_peft_json(lora, {}).at("base_model_name_or_path").is_null());
}

TEST_CASE("adapter_config.json: the revision of the base is PEFT's, null for main") {
  for (auto const& [written, revision] : {std::pair("null", "main"), {"\"v1\"", "v1"}}) {
    auto json = nlohmann::json{{"base_model_name_or_path", "o/n"}};
    json["revision"] = nlohmann::json::parse(written);
    auto const base = mpt::adapted_name(json, "a.json");
    CHECK(base.name == "o/n");
    CHECK(base.revision == revision);
    CHECK(mpt::to_peft_json({.targets = {"Wqkv"}}, base).at("revision").dump() == written);
  }
  CHECK(mpt::adapted_name({{"base_model_name_or_path", "o/n"}}, "a.json").revision == "main");
  CHECK(test::message_of([] {
          (void)mpt::adapted_name({{"revision", 1}}, "a.json");
        }) ==
        "a.json: revision: expected a branch, a tag or a commit of the model in "
        "base_model_name_or_path, or null, found 1");
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
  auto const json = mpt::to_peft_json(lora, {});
  CHECK(json.at("rank_pattern").at("out_proj") == 6);
  CHECK(json.at("alpha_pattern").at("transformer.blocks.1.attn.Wqkv") == 64);
  auto const reread = mpt::from_peft_json(json, small(), "ours");
  for (auto const& layer : mpt::linear_layers(small())) {
    CHECK(mpt::lora_rank(reread, layer.name) == mpt::lora_rank(lora, layer.name));
    CHECK(mpt::lora_scale(reread, layer.name) == mpt::lora_scale(lora, layer.name));
  }
  CHECK_FALSE(mpt::to_peft_json({.targets = {"Wqkv"}}, {}).contains("rank_pattern"));
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

TEST_CASE("adapter_config.json: adapters of dense layers beside experts are PEFT's parameters") {
  auto model = small();
  model.family = "qwen3_moe";
  model.n_layers = 3;
  model.ffn_type = mpt::ffn_kind::mptglu;
  model.experts = {.count = 4, .top_k = 2, .dense_layers = {0, 2}};
  auto const lora = read("{target_modules: [q_proj, down_proj]}", model);
  auto json = mpt::to_peft_file(lora, {}, model);
  CHECK(json.at("target_modules") == nlohmann::json{"q_proj"});
  CHECK(json.at("target_parameters") ==
        nlohmann::json{"layers.0.mlp.down_proj.weight", "layers.2.mlp.down_proj.weight"});
  CHECK(mpt::from_peft_json(json, model, "ours") == lora);
  json["target_parameters"].erase(1);
  CHECK(test::contains(test::message_of([&] { (void)mpt::from_peft_json(json, model, "a.json"); }),
                       "a.json: target_parameters is [\"layers.0.mlp.down_proj.weight\"], but "
                       "these layers are all or none adapted here: "));
  model.experts.reset();
  CHECK(mpt::to_peft_file(lora, {}, model) == mpt::to_peft_json(lora, {}, model));
}

TEST_CASE("adapter_config.json: what is not plain LoRA is refused with advice to merge it") {
  for (auto const& [text, expected] : test::refused_settings("settings of a trained adapter")) {
    auto json = mpt::to_peft_json({.targets = {"Wqkv"}}, {});
    json.update(nlohmann::json::parse(text));
    auto const message =
        test::message_of([&] { (void)mpt::from_peft_json(json, small(), "a.json"); });
    CHECK((message.empty() ? "accepted" : message) == expected);
  }
  auto untied = small();
  untied.tie_word_embeddings = false;
  auto const head = mpt::to_peft_json({.targets = {"lm_head"}}, {});
  CHECK(test::contains(test::message_of([&] { (void)mpt::from_peft_json(head, untied, "a.json"); }),
                       "of such layers are not read; merge it into its model by PEFT"));
}

}  // namespace read_lora_test
