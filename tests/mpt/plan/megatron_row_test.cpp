#include <doctest/doctest.h>

#include <mpt/config/read_train.hpp>
#include <mpt/plan/megatron_row.hpp>
#include <mpt/yaml/document.hpp>

namespace megatron_row_test {
namespace {

nlohmann::json fields(nlohmann::json changes) {
  nlohmann::json out{{"source", "NVIDIA/Megatron-LM@c:d"},
                     {"case", "gpt3_mcore_te_tp2_pp4_vp1"},
                     {"platform", "dev_dgx_h100"},
                     {"layers", "12"},
                     {"hidden", "512"},
                     {"heads", "8"},
                     {"seq", "1024"},
                     {"tp", "2"},
                     {"pp", "4"},
                     {"vpp", "1"},
                     {"cp", "1"},
                     {"sp", ""},
                     {"dist_optimizer", ""},
                     {"micro_batch", "4"},
                     {"global_batch", "32"},
                     {"precision", "bf16"},
                     {"recompute", ""},
                     {"mem_max_allocated_bytes", "1000"}};
  if (!changes.is_null()) out.update(changes);
  return out;
}

mpt::train_config config_of(nlohmann::json const& changes) {
  auto const row = mpt::megatron_row(fields(changes), "t:2");
  return mpt::read_train_config(mpt::make_document(row.yaml(), row.location()));
}

std::string refusal(nlohmann::json const& changes) {
  try {
    static_cast<void>(mpt::megatron_row(fields(changes), "t:2").yaml());
  } catch (parallel::error const& thrown) {
    return thrown.what();
  }
  return "";
}

TEST_CASE("Megatron's test: becomes the run of a GPT on the GPUs that the test has") {
  auto const config = config_of({});
  CHECK(config.model.vocab_size == 50432);  // 50257, in multiples of 256
  CHECK(config.model.tie_word_embeddings);
  CHECK(config.execution.parallelism.stages_per_rank == 3);  // stages of one block of 12
  CHECK_FALSE(config.execution.parallelism.sequence_parallel);
  CHECK(config.execution.zero_stage == 0);
  auto const sharded = config_of({{"dist_optimizer", "true"}, {"sp", "true"}, {"vpp", ""}});
  CHECK(sharded.execution.zero_stage == 1);
  CHECK(sharded.execution.parallelism.sequence_parallel);
  auto const row = mpt::megatron_row(fields({}), "t:2");
  CHECK(row.text("gpu") == "H100-80GB");
  CHECK(row.text("gpus") == "8");
  CHECK(row.checksum() == mpt::published_row(fields({}), "elsewhere").checksum());
  auto const one_node = mpt::megatron_row(
      fields({{"case", "gpt3_mcore_te_tp2_pp2_1node"}, {"platform", "dev_dgx_gb200"}}), "t:2");
  CHECK(one_node.text("gpu") == "GB200");
  CHECK(one_node.text("gpus") == "4");
}

TEST_CASE("Megatron's test: notes say the precision and whether attention is fused") {
  auto const notes = [](nlohmann::json const& changes) {
    auto const text = mpt::megatron_row(fields(changes), "t:2").text("notes");
    return text.substr(0, text.find(';'));
  };
  CHECK(notes({}) == "bf16 unfused");
  CHECK(notes({{"cp", "2"}}) == "bf16 fused");
  CHECK(notes({{"case", "gpt3_mcore_te_tp2_resume_torch_dist"}}) == "bf16 fused");
  CHECK(notes({{"case", "gpt3_mcore_tp2_resume_torch_dist"}, {"precision", "fp16"}}) ==
        "fp16 unfused");
  CHECK(notes({{"case", "gpt3_15b_8t_release"}}) == "bf16 fused without dropout");
}

TEST_CASE("Megatron's test: one that cannot be planned is refused with its reason") {
  CHECK(refusal({{"case", "t5_mcore"}}) == "its model is no GPT");
  CHECK(refusal({{"experts", "8"}}) == "its model has experts, which are not planned yet");
  CHECK(refusal({{"case", "gpt3_mcore_te_mla"}}) ==
        "its model has latent attention, which is not planned");
  CHECK(refusal({{"case", "gpt3_mcore_te_uneven_pipeline"}}) ==
        "its stages have unequal numbers of blocks");
  CHECK(refusal({{"precision", "fp8"}}) == "its precision is fp8; bf16 and fp16 are predicted");
}

}  // namespace
}  // namespace megatron_row_test
