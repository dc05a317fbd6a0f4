// Notes on plans that leave ranks idle, with advice.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/train/setup/idle_ranks.hpp>
#include <parallel/support/files.hpp>

namespace idle_ranks_test {

struct example {
  mpt::train_config config;
  mpt::run_plan plan;
};

/// `batch` sequences on `ranks` ranks.
example plan_of(int ranks, std::int64_t batch, mpt::parallelism_config const& parallelism = {},
                std::int64_t microbatch = 1, bool canonical = false) {
  example out;
  out.config.model.n_layers = 8;
  out.config.execution.parallelism = parallelism;
  out.config.data.global_train_batch_size = batch;
  out.config.data.device_train_microbatch_size = microbatch;
  if (canonical)
    out.config.execution.reduction_order = parallel::zero::reduction_order::canonical_tree;
  out.plan.layout = mpt::run_layout(out.config, ranks);
  out.plan.split =
      mpt::split_batch(out.config.data, out.config.execution, mpt::data_ranks(out.plan.layout));
  return out;
}

std::vector<std::string> notes_on(example const& run) {
  return mpt::notes_on_idle_ranks(run.config.data, run.config.execution, run.plan);
}

TEST_CASE("idle ranks: 72 sequences on 64 ranks leave 44 % of their time without work") {
  auto const uneven = plan_of(64, 72);
  CHECK(mpt::idle_share_of_data_ranks(uneven.config.data, uneven.plan) == 0.4375);
  CHECK(notes_on(uneven) ==
        std::vector<std::string>{
            "56 of 64 data ranks have 1 sequence where others have 2: 44 % of the data ranks' time "
            "is spent waiting; set global_train_batch_size to 64 or 128, or start 36 ranks"});
  // ranks of a model count as one reader of data
  CHECK(notes_on(plan_of(128, 72, {.tensor = 2})).at(0).ends_with(", or start 72 ranks"));
}

TEST_CASE("idle ranks: even or almost even batches have no note") {
  CHECK(notes_on(plan_of(64, 128)).empty());
  CHECK(notes_on(plan_of(1, 7)).empty());
  CHECK(notes_on(plan_of(2, 101)).empty());  // 1 %
}

TEST_CASE("idle ranks: in the canonical order some ranks may have no sequence at all") {
  auto const uneven = plan_of(8, 3, {}, 1, true);
  CHECK(mpt::idle_share_of_data_ranks(uneven.config.data, uneven.plan) == 0.625);
  CHECK(notes_on(uneven) ==
        std::vector<std::string>{"5 of 8 data ranks have no sequence where others have 1: 62 % of "
                                 "the data ranks' time is spent waiting; set "
                                 "global_train_batch_size to 8, or start 3 ranks"});
}

TEST_CASE("idle ranks: a pipeline with too few microbatches idles") {
  auto const one = plan_of(4, 1, {.pipeline = 4});
  CHECK(mpt::idle_share_of_pipeline(one.config.execution.parallelism, one.plan) == 0.75);
  CHECK(notes_on(one).at(0).starts_with(
      "pipeline 4 with 1 microbatch a step: 75 % of the pipeline ranks' time is spent waiting; "));
  auto const eight = plan_of(4, 8, {.pipeline = 4});
  CHECK(mpt::idle_share_of_pipeline(eight.config.execution.parallelism, eight.plan) ==
        doctest::Approx(3.0 / 11));  // docs/pipelines.md: 27.27 %
  CHECK(notes_on(plan_of(4, 64, {.pipeline = 4})).empty());
  CHECK(notes_on(plan_of(4, 10000, {.pipeline = 4})).empty());
}

}  // namespace idle_ranks_test
