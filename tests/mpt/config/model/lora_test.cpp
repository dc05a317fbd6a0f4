#include <doctest/doctest.h>

#include <mpt/config/model/lora.hpp>

namespace lora_test {

TEST_CASE("LoRA target: matches a layer's whole name or its ending") {
  CHECK(mpt::is_target("Wqkv", "transformer.blocks.0.attn.Wqkv"));
  CHECK(mpt::is_target("attn.Wqkv", "transformer.blocks.0.attn.Wqkv"));
  CHECK(mpt::is_target("transformer.blocks.0.attn.Wqkv", "transformer.blocks.0.attn.Wqkv"));
  CHECK(!mpt::is_target("qkv", "transformer.blocks.0.attn.Wqkv"));
  CHECK(!mpt::is_target("Wqkv", "transformer.blocks.0.attn.Wqkv.weight"));
  CHECK(!mpt::is_target("1.attn.Wqkv", "transformer.blocks.11.attn.Wqkv"));
  mpt::lora_config const lora{.targets = {"out_proj", "blocks.1.ffn.up_proj"}};
  CHECK(mpt::is_adapted(lora, "transformer.blocks.0.attn.out_proj"));
  CHECK(mpt::is_adapted(lora, "transformer.blocks.1.ffn.up_proj"));
  CHECK(!mpt::is_adapted(lora, "transformer.blocks.0.ffn.up_proj"));
}

TEST_CASE("LoRA scale: alpha over the layer's rank, or over its square root") {
  mpt::lora_config lora{.rank = 16, .alpha = 24};
  CHECK(mpt::lora_scale(lora, "transformer.blocks.0.attn.Wqkv") == 1.5);
  lora.rank_pattern = {{"blocks.1.attn.Wqkv", 4}};
  lora.alpha_pattern = {{"out_proj", 8}, {"blocks.1.attn.Wqkv", 12}};
  CHECK(mpt::lora_rank(lora, "transformer.blocks.0.attn.Wqkv") == 16);
  CHECK(mpt::lora_rank(lora, "transformer.blocks.1.attn.Wqkv") == 4);
  CHECK(mpt::lora_rank(lora, "transformer.blocks.11.attn.Wqkv") == 16);
  CHECK(mpt::lora_scale(lora, "transformer.blocks.0.attn.Wqkv") == 1.5);
  CHECK(mpt::lora_scale(lora, "transformer.blocks.1.attn.Wqkv") == 3);
  CHECK(mpt::lora_scale(lora, "transformer.blocks.1.attn.out_proj") == 0.5);
  lora.rank_stabilised = true;
  CHECK(mpt::lora_scale(lora, "transformer.blocks.0.attn.Wqkv") == 6);
  CHECK(mpt::lora_scale(lora, "transformer.blocks.1.attn.Wqkv") == 6);
}

TEST_CASE("is_adapter: recognises an adapter's parameters by name") {
  CHECK(mpt::is_adapter("transformer.blocks.0.attn.Wqkv.lora_A.weight"));
  CHECK(mpt::is_adapter("transformer.blocks.0.attn.Wqkv.lora_B.weight"));
  CHECK(!mpt::is_adapter("transformer.blocks.0.attn.Wqkv.weight"));
}

}  // namespace lora_test
