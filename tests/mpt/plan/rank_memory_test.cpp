#include <doctest/doctest.h>

#include <mpt/plan/known_programs.hpp>
#include <mpt/plan/rank_memory.hpp>

namespace rank_memory_test {
namespace {

/// A model of 4 blocks on two pipeline ranks, whose tensor ranks divide rows too.
mpt::train_config config() {
  mpt::train_config out;
  out.model.d_model = 16;
  out.model.n_heads = 4;
  out.model.n_layers = 4;
  out.model.vocab_size = 24;
  out.data.train_loader.max_seq_len = 8;
  out.execution.parallelism.pipeline = 2;
  out.execution.parallelism.tensor = 2;
  out.execution.parallelism.sequence_parallel = true;
  return out;
}

mpt::run_plan plan() {
  mpt::run_plan out;
  out.split.microbatch = 3;
  out.split.accumulation = 5;
  out.by_pipeline_rank.resize(2);
  out.by_pipeline_rank[1].values = 200;
  out.by_pipeline_rank[1].gradients = 400;
  out.by_pipeline_rank[1].master = 80;
  out.by_pipeline_rank[1].buffers = 70;
  out.by_pipeline_rank[1].activations = 1000;
  return out;
}

TEST_CASE("memory of ranks: logits and scores are counted where blocks and the head keep them") {
  auto const ranks = mpt::memory_of_ranks(config(), plan());
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].logits == 0);
  CHECK(ranks[1].logits == 3 * 8 * 12);  // of 24 words on two tensor ranks
  // 1F1B: the first rank keeps two microbatches of its two blocks, the last one
  CHECK(ranks[0].scores == 2 * 2 * 3 * 8 * 8 * 2);
  CHECK(ranks[1].scores == 2 * 3 * 8 * 8 * 2);
  CHECK(ranks[1].residuals == 2 * 3 * 8 * 16 / 2);
  CHECK(ranks[1].gathered == 2 * 3 * 8 * 16 * 4);
  CHECK(ranks[1].value_bytes == 200);
  CHECK(ranks[1].gradients == 100);
  CHECK(ranks[1].states == 20);
  CHECK(ranks[1].activations == 1000);
  auto sharded = config();
  sharded.execution.zero_stage = 3;
  CHECK(mpt::memory_of_ranks(sharded, plan())[1].value_bytes == 270);
  auto recomputing = plan();
  recomputing.recompute = mpt::recompute_all(4);
  CHECK(mpt::memory_of_ranks(config(), recomputing)[0].scores == 3 * 8 * 8 * 2);  // of one block
}

TEST_CASE("memory of ranks: bytes by a program are those that this library plans, or its own") {
  mpt::rank_memory const rank{.value_bytes = 200,
                              .gradients = 100,
                              .states = 20,
                              .activations = 1000,
                              .gathered = 300,
                              .temporaries = 100,
                              .logits = 50,
                              .tensor_parts = 2,
                              .scores = 40,
                              .residuals = 30};
  CHECK(mpt::bytes_of(rank, {}) == 200 + 4 * 100 + 12 * 20 + 1000);
  CHECK(mpt::bytes_of(rank, {.gradient_bytes = 2, .state_bytes = 16}) == 200 + 200 + 320 + 1000);
  CHECK(mpt::bytes_of(rank, {.activations = 2, .gathers_again = true}) == 840 + 2 * 700);
  CHECK(mpt::bytes_of(rank, {.logit_bytes = 6}) == 840 + 900 + 300);  // more than temporaries
  CHECK(mpt::bytes_of(rank, {.logit_bytes = 1}) == 840 + 1000);
  CHECK(mpt::bytes_of(rank, {.logit_bytes = 6, .gathers_logits = true}) == 840 + 900 + 600);
  CHECK(mpt::bytes_of(rank, {.score_bytes = 5, .residual_bytes = 2, .workspace = 7}) ==
        840 + 1000 + 200 + 60 + 7);
}

TEST_CASE("memory of programs: the first entry counts whose notes are among the row's") {
  auto const of_megatron = [](std::string const& notes) {
    return mpt::memory_of_program("NVIDIA/Megatron-LM", notes);
  };
  CHECK(of_megatron("bf16 fused; a test").gradient_bytes == 4);
  CHECK(of_megatron("bf16 fused; a test").score_bytes == 0);
  CHECK(of_megatron("fp16 unfused; a test").gradient_bytes == 2);
  CHECK(of_megatron("fp16 unfused; a test").score_bytes > 0);
  CHECK(of_megatron("bf16 fused without dropout; a test").residual_bytes == 0);
  CHECK(mpt::memory_of_program("someone/trainer", "").logit_bytes == 0);
}

}  // namespace
}  // namespace rank_memory_test
