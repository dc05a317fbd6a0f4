// peft_config as YAML and as PEFT's file; which of PEFT's settings are refused.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/document.hpp>
#include <mpt/config/read_lora.hpp>
#include <parallel/support/files.hpp>
#include <support/golden.hpp>

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

TEST_CASE("LLM Foundry's form is read; what is left out is PEFT's default") {
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

TEST_CASE("all-linear is every linear layer of the blocks") {
  CHECK(read("{target_modules: all-linear}").targets ==
        names{"Wqkv", "out_proj", "up_proj", "down_proj"});
  auto other = small();
  other.attn.fused_qkv = false;
  other.ffn_type = mpt::ffn_kind::mptglu;
  CHECK(read("{target_modules: all-linear}", other).targets ==
        names{"Wq", "Wk", "Wv", "out_proj", "up_proj", "gate_proj", "down_proj"});
}

TEST_CASE("what is not there, or not understood, is refused by name") {
  struct refused {
    std::string text, message;
  };
  std::vector<refused> const cases = {
      {"{rank: 4}", "f.yaml:1:2: model.peft_config.rank: unknown key"},
      {"{r: 0}", "f.yaml:1:5: model.peft_config.r: must be from 1 to 131072, found 0"},
      {"{lora_alpha: -1}", "f.yaml:1:14: model.peft_config.lora_alpha: must be above 0, found -1"},
      {"{lora_dropout: 1}",
       "f.yaml:1:16: model.peft_config.lora_dropout: is a dropout probability from 0 to below 1, "
       "found 1"},
      {"{peft_type: IA3}",
       "f.yaml:1:13: model.peft_config.peft_type: 'IA3' is not supported; use LORA"},
      {"{bias: all}",
       "f.yaml:1:8: model.peft_config.bias: 'all' is not yet supported; biases stay as they are: "
       "use none"},
      {"{use_dora: true}",
       "f.yaml:1:12: model.peft_config.use_dora: 'true' is not yet supported; use false"},
      {"{modules_to_save: [lm_head]}",
       "f.yaml:1:19: model.peft_config.modules_to_save: not yet supported; leave it out; "
       "target_modules names the layers, all of one rank"},
      {"{target_modules: [Wqkv, q_proj]}",
       "f.yaml:1:25: model.peft_config.target_modules: 'q_proj' is no linear layer of this model's "
       "blocks; it has Wqkv, out_proj, up_proj, down_proj"},
      {"{target_modules: Wqkv}",
       "f.yaml:1:18: model.peft_config.target_modules: expected a list of layers' names, or "
       "all-linear, found 'Wqkv'"},
  };
  for (auto const& at : cases)
    CHECK(test::message_of([&] { static_cast<void>(read(at.text)); }) == at.message);
}

TEST_CASE("PEFT's own file is read, and what is written is read as the same") {
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

TEST_CASE("PEFT's other methods are refused in its file, and how it began does not matter") {
  auto json = mpt::to_peft_json({.targets = {"Wqkv"}}, "");
  json["init_lora_weights"] = "gaussian";
  CHECK(mpt::from_peft_json(json, small(), "a").targets == names{"Wqkv"});
  json["init_lora_weights"] = "pissa";
  CHECK(test::message_of([&] { (void)mpt::from_peft_json(json, small(), "a.json"); }) ==
        "a.json: init_lora_weights: 'pissa' is not yet supported; A is uniform and B zero at "
        "first: use true");
  json["init_lora_weights"] = false;
  json["use_qalora"] = true;
  CHECK(test::message_of([&] { (void)mpt::from_peft_json(json, small(), "a.json"); }) ==
        "a.json: use_qalora: 'true' is not yet supported; use false");
}

}  // namespace read_lora_test
