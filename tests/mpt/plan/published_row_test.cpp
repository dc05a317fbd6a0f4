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

TEST_CASE("published row: a row that cannot be a run is refused with its reason") {
  CHECK(refusal({{"dp", "4"}}) == "its degrees multiply to 32, but it has 64 GPUs");
  CHECK(refusal({{"hidden", ""}}) == "it has no hidden");
  CHECK(refusal({{"layers", "many"}}) == "its layers is 'many', not a number");
  CHECK(refusal({{"seq", "0.5"}}) == "its seq is 0.5, not a whole number above 0");
  CHECK(refusal({{"model", "mixtral 8x22b"}}) ==
        "its model has experts, which are not planned yet");
  CHECK(refusal({{"model", "unheard of"}}) ==
        "its model 'unheard of' is not known; give the columns heads, ffn and vocab");
}

}  // namespace
}  // namespace published_row_test
