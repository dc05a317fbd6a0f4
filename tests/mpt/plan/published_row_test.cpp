#include <doctest/doctest.h>

#include <mpt/config/read_train.hpp>
#include <mpt/plan/published_row.hpp>
#include <mpt/yaml/document.hpp>

namespace published_row_test {
namespace {

nlohmann::json fields(nlohmann::json changes) {
  nlohmann::json out{{"source", "a/b@c:d"},
                     {"model", "llama3 8b"},
                     {"layers", "32"},
                     {"hidden", "4096"},
                     {"seq", "8192"},
                     {"gpu", "H100-80GB"},
                     {"gpus", "64"},
                     {"dp", "8"},
                     {"tp", "4"},
                     {"pp", "2"},
                     {"cp", "1"},
                     {"zero", "1"},
                     {"micro_batch", "1"},
                     {"global_batch", "128"},
                     {"precision", "bf16"},
                     {"recompute", "blocks"},
                     {"notes", "vp 2; Megatron"}};
  out.update(changes);
  return out;
}

std::string refusal(nlohmann::json const& changes) {
  try {
    static_cast<void>(mpt::published_row(fields(changes), "t:2").yaml());
  } catch (parallel::error const& thrown) {
    return thrown.what();
  }
  return "";
}

TEST_CASE("published row: becomes a run of the model, layout and batch that it states") {
  mpt::published_row const row(fields({{"step_s", ""}, {"tokens_per_s_per_gpu", "4096"}}), "t:2");
  auto const config = mpt::read_train_config(mpt::make_document(row.yaml(), "t:2"));
  CHECK(config.model.n_heads == 32);
  CHECK(config.model.attn.kv_n_heads == 8);
  CHECK(config.model.vocab_size == 128256);
  CHECK(config.execution.parallelism.tensor == 4);
  CHECK(config.execution.parallelism.pipeline == 2);
  CHECK(config.execution.parallelism.stages_per_rank == 2);
  CHECK(config.execution.zero_stage == 1);
  CHECK(config.execution.recompute.has_value());
  CHECK(config.data.global_train_batch_size == 128);
  CHECK(row.seconds() == 128 * 8192.0 / (4096 * 64));
  CHECK(row.cluster() == "h100x8x8");
}

mpt::train_config config_of(nlohmann::json changes) {
  mpt::published_row const row(fields(std::move(changes)), "t:2");
  return mpt::read_train_config(mpt::make_document(row.yaml(), "t:2"));
}

TEST_CASE("published row: the name of a model says what the row does not, in any spelling") {
  auto const config = config_of({{"model", "Meta-Llama-3.1-8B"}, {"hidden", ""}, {"layers", ""}});
  CHECK(config.model.d_model == 4096);
  CHECK(config.model.n_layers == 32);
  CHECK(config.model.attn.kv_n_heads == 8);
  CHECK_FALSE(mpt::published_row(fields({{"hidden", ""}}), "t:2").has_derived_size());
}

TEST_CASE("published row: the batch has two names, from which seconds follow too") {
  mpt::published_row const row(
      fields({{"global_batch", ""}, {"gbs", "128"}, {"tokens_per_s_per_gpu", "4096"}}), "t:2");
  CHECK(row.seconds() == 128 * 8192.0 / (4096 * 64));
}

TEST_CASE("published row: a model of an unknown size has GPT-3's proportions and its parameters") {
  nlohmann::json const changes{
      {"model", "gpt-like 175b"}, {"params", "1.75e11"}, {"hidden", ""}, {"layers", ""}};
  CHECK(mpt::published_row(fields(changes), "t:2").has_derived_size());
  auto const config = config_of(changes);
  CHECK(config.model.d_model == 12288);
  CHECK(config.model.n_layers == 96);
}

TEST_CASE("published row: precisions are read in any spelling, and others are refused") {
  auto const is_in_fp8 = [](char const* precision) {
    return mpt::published_row(fields({{"precision", precision}}), "t:2").is_in_fp8();
  };
  CHECK(is_in_fp8("MXFP8"));
  CHECK(is_in_fp8("fp8-rowwise"));
  CHECK_FALSE(is_in_fp8("amp_bf16"));
  CHECK_THROWS_WITH_AS(static_cast<void>(is_in_fp8("nvfp4")),
                       "its precision is nvfp4; bf16, fp16 and fp8 are predicted", parallel::error);
}

TEST_CASE("published row: a model of an unknown name has the shape that its columns say") {
  auto const config =
      config_of({{"model", "unheard of"}, {"heads", "16"}, {"ffn", "9216"}, {"vocab", "65536"}});
  CHECK(config.model.n_heads == 16);
  CHECK(config.model.vocab_size == 65536);
}

TEST_CASE("published row: known GPUs are found by a part of their names") {
  auto const cluster_of = [](char const* gpu) {
    return mpt::published_row(fields({{"gpu", gpu}}), "t:2").cluster();
  };
  CHECK(cluster_of("NVIDIA H100 SXM5 80GB") == "h100x8x8");
  CHECK(cluster_of("H100-96GB-HBM2e-500W") == "h100-500wx8x8");
  CHECK(cluster_of("A100-40GB") == "a100-40gbx8x8");
  CHECK(cluster_of("GB200") == "gb200x64x1");
  CHECK(mpt::published_row(fields({{"gpu", "A100 80GB SXM4"}}), "t:2").device() == "a100");
  CHECK(cluster_of("RTX PRO 6000") == "rtxpro6000x8x8");
}

TEST_CASE("published row: microbatches, stages and adapters that only the notes tell") {
  auto const batch = config_of({{"micro_batch", ""}, {"notes", "interleaved 1F1B"}});
  CHECK(batch.execution.parallelism.stages_per_rank == 2);
  // 16 rows of a data rank, one microbatch for each of 2 x 2 stages
  CHECK(batch.data.device_train_microbatch_size == 4);
  CHECK(config_of({{"notes", "vp 20"}}).execution.parallelism.stages_per_rank == 16);  // 32 layers
  CHECK(config_of({{"notes", "NeMo 24.07; lora; vp 2"}}).model.lora.has_value());
}

TEST_CASE("published row: a row that cannot be a run is refused with its reason") {
  CHECK(refusal({{"dp", "4"}}) == "its degrees multiply to 32, but it has 64 GPUs");
  CHECK(refusal({{"model", "gpt"}, {"hidden", ""}}) == "it has no hidden");
  CHECK(refusal({{"layers", "many"}}) == "its layers is 'many', not a number");
  CHECK(refusal({{"seq", "0.5"}}) == "its seq is 0.5, not a whole number above 0");
  CHECK(refusal({{"model", "mixtral 8x22b"}}) ==
        "its model has experts, which are not planned yet");
  CHECK(refusal({{"model", "unheard of"}}) ==
        "its model 'unheard of' is not known; give the columns heads, ffn and vocab");
}

}  // namespace
}  // namespace published_row_test
