#include <algorithm>

#include <doctest/doctest.h>

#include <mpt/plan/layouts.hpp>
#include <mpt/plan/read_cluster.hpp>

namespace layouts_test {
namespace {

using mpt::alternatives;
using mpt::settings;
using mpt::variation;

mpt::train_config config(int pipeline) {
  mpt::train_config out;
  out.model.n_heads = 16;
  out.model.n_layers = 10;
  out.data.global_train_batch_size = 64;
  out.data.train_loader.max_seq_len = 2048;
  out.execution.parallelism.pipeline = pipeline;
  out.execution.zero_stage = 1;
  return out;
}

bool contains(std::vector<settings> const& layouts, std::string const& setting) {
  return std::ranges::any_of(
      layouts, [&](settings const& one) { return std::ranges::find(one, setting) != one.end(); });
}

TEST_CASE("layouts: a change replaces the setting of its key, and is added where there is none") {
  CHECK(mpt::with_changes({"a.b=1", "a=2"}, {"a=3", "c=4"}) == settings{"a.b=1", "a=3", "c=4"});
}

TEST_CASE("layouts: every way to vary a run has its settings") {
  auto const machines = mpt::read_cluster("h100x8x8");
  auto const tried = [&](variation kind, int pipeline = 4) {
    return alternatives(kind, config(pipeline), machines);
  };
  for (auto const* const schedule : {"1f1b", "zb-h1", "zb-v", "dual-pipe-v", "interleaved"})
    CHECK(contains(tried(variation::schedule), std::string("parallelism.schedule=") + schedule));
  CHECK(tried(variation::schedule, 1).empty());
  CHECK(contains(tried(variation::microbatch), "device_train_microbatch_size=4"));
  CHECK(contains(tried(variation::recomputation), "fsdp_config.activation_checkpointing=true"));
  CHECK(tried(variation::shards, 1) ==
        std::vector<settings>{{"parallelism.shard=16", "parallelism.replicate=4"},
                              {"parallelism.shard=32", "parallelism.replicate=2"}});
  CHECK(tried(variation::stages, 1).empty());
  CHECK(tried(variation::stages) ==
        std::vector<settings>{{"parallelism.blocks_by_stage=[3,3,3,1]"},
                              {"parallelism.blocks_by_stage=[2,4,3,1]"}});
  CHECK(tried(variation::reduction) == std::vector<settings>{{"reduce_dtype=bf16"}});
}

TEST_CASE("layouts: degrees of the file are replaced, also those that a layout leaves out") {
  auto written = config(2);
  written.execution.parallelism.shard = 8;
  written.execution.parallelism.replicate = 4;
  written.execution.parallelism.blocks_by_stage = {4, 6};
  auto const layouts = mpt::layout_settings(written, mpt::read_cluster("h100x8x8"));
  for (auto const& layout : layouts) {
    bool const has_shards = std::ranges::any_of(
        layout, [](std::string const& s) { return s.starts_with("parallelism.shard="); });
    CHECK(has_shards);
    bool const changes_pipeline = std::ranges::any_of(
        layout, [](std::string const& s) { return s.starts_with("parallelism.pipeline="); });
    CHECK(contains({layout}, "parallelism.blocks_by_stage=") == changes_pipeline);
  }
}

}  // namespace
}  // namespace layouts_test
