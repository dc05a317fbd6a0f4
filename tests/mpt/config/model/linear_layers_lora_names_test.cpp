// Names of adapted layers: PEFT's for each family, and ours.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/family.hpp>
#include <mpt/config/model/linear_layers.hpp>
#include <mpt/config/model/lora.hpp>
#include <mpt/config/model/read_lora.hpp>

namespace lora_names_test {

using names = std::vector<std::string>;

mpt::model_config model_of(std::string const& family, mpt::ffn_kind ffn, bool is_fused) {
  mpt::model_config model;
  model.family = family;
  model.d_model = 16;
  model.n_heads = 4;
  model.n_layers = 2;
  model.ffn_type = ffn;
  model.attn.fused_qkv = is_fused;
  return model;
}

TEST_CASE("adapters of a Llama: q_proj means Wq of all blocks, a full name means one layer") {
  auto const model = model_of("llama", mpt::ffn_kind::mptglu, false);
  CHECK(mpt::targets_from_peft(model, "q_proj") == names{"attn.Wq"});
  CHECK(mpt::targets_from_peft(model, "self_attn.o_proj") == names{"attn.out_proj"});
  CHECK(mpt::targets_from_peft(model, "model.layers.1.mlp.gate_proj") ==
        names{"transformer.blocks.1.ffn.gate_proj"});
  CHECK(mpt::targets_from_peft(model, "Wq").empty());
  CHECK(mpt::target_to_peft(model, "attn.Wq") == "q_proj");
  CHECK(mpt::target_to_peft(model, "transformer.blocks.1.ffn.gate_proj") ==
        "model.layers.1.mlp.gate_proj");
  CHECK(mpt::peft_layer_name(model, "transformer.blocks.0.attn.Wk") ==
        "model.layers.0.self_attn.k_proj");
}

TEST_CASE("adapters of a GPT-2: c_proj names two layers of each block, and each has a name") {
  auto const model = model_of("gpt2", mpt::ffn_kind::mptmlp, true);
  CHECK(mpt::targets_from_peft(model, "c_proj") == names{"attn.out_proj", "ffn.down_proj"});
  CHECK(mpt::target_to_peft(model, "attn.out_proj") == "attn.c_proj");
  CHECK(mpt::target_to_peft(model, "ffn.down_proj") == "mlp.c_proj");
  CHECK(mpt::target_to_peft(model, "attn.Wqkv") == "c_attn");
}

TEST_CASE(
    "adapters of a family with experts are for attention, and stored as PEFT stores a Linear's") {
  for (std::string const family : {"mixtral", "olmoe", "qwen2_moe", "qwen3_moe"}) {
    CAPTURE(family);
    auto model = model_of(family, mpt::ffn_kind::mptglu, false);
    model.experts.emplace().count = 4;
    CHECK(mpt::targets_from_peft(model, "q_proj") == names{"attn.Wq"});
    CHECK(mpt::targets_from_peft(model, "gate_proj").empty());
    CHECK(mpt::targets_from_peft(model, "w2").empty());
    CHECK(mpt::to_peft_json({.targets = {"attn.Wq"}}, {}, model).at("fan_in_fan_out") == false);
  }
  auto const gpt2 = model_of("gpt2", mpt::ffn_kind::mptmlp, true);
  CHECK(mpt::to_peft_json({.targets = {"attn.Wqkv"}}, {}, gpt2).at("fan_in_fan_out") == true);
}

TEST_CASE("adapters of an MPT: PEFT and the model name a layer alike") {
  auto const model = model_of("mpt", mpt::ffn_kind::mptmlp, true);
  CHECK(mpt::targets_from_peft(model, "Wqkv") == names{"attn.Wqkv"});
  CHECK(mpt::target_to_peft(model, "Wqkv") == "Wqkv");
}

TEST_CASE("adapters: projections that a family stores apart become separate layers") {
  auto model = model_of("qwen2", mpt::ffn_kind::mptglu, true);
  mpt::separate_projections(model);
  CHECK_FALSE(model.attn.fused_qkv);
  auto fused = model_of("gpt_neox", mpt::ffn_kind::mptmlp, true);
  mpt::separate_projections(fused);
  CHECK(fused.attn.fused_qkv);
}

}  // namespace lora_names_test
