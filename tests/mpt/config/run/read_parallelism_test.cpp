#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/run/read_parallelism.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/support/files.hpp>

#include "mpt/config/refused_settings.hpp"

namespace read_parallelism_test {

inline mpt::parallelism_config read(std::string const& text, mpt::config_report& report) {
  auto const root = mpt::parse_yaml(text, "f.yaml");
  mpt::config_reader reader(root, "", report);
  auto out = mpt::detail::read_parallelism(reader);
  reader.finish();
  return out;
}

inline mpt::parallelism_config read(std::string const& text) {
  mpt::config_report report;
  return read(text, report);
}

TEST_CASE("parallelism: without settings one rank holds the model") {
  for (char const* const text : {"{}", "parallelism:", "{tp_config: , parallelism: {}}"}) {
    auto const p = read(text);
    CHECK(p.ranks_of_model() == 1);
    CHECK(p.least_ranks() == 1);
    CHECK(p.pipeline_options().schedule == "1f1b");
    CHECK_FALSE(p.shard);
    CHECK_FALSE(p.replicate);
  }
}

TEST_CASE("parallelism: every axis is read") {
  auto const p = read(
      "parallelism: {tensor: 2, sequence_parallel: true, context: 3, context_method: ulysses, "
      "pipeline: 2, schedule: interleaved, stages_per_rank: 3, blocks_by_stage: [1, 1, 2, 1, 1, "
      "1], "
      "shard: 4, replicate: 5, overlap_weight_gradients: true}");
  CHECK(p.tensor == 2);
  CHECK(p.sequence_parallel);
  CHECK(p.context == 3);
  CHECK(p.context_method == parallel::context_parallel::method::ulysses);
  CHECK(p.ranks_of_model() == 12);
  CHECK(p.least_ranks() == 240);
  CHECK(p.stages() == 6);
  auto const options = p.pipeline_options();
  CHECK(options.schedule == "interleaved");
  CHECK(options.stages_per_rank == 3);
  CHECK(options.blocks == std::vector{1, 1, 2, 1, 1, 1});
  CHECK(options.overlap_weight_gradients);
}

TEST_CASE("parallelism: a schedule sets the stages per rank") {
  CHECK(read("parallelism: {pipeline: 2}").stages() == 2);
  CHECK(read("parallelism: {pipeline: 2, schedule: interleaved}").stages() == 4);
  CHECK(read("parallelism: {pipeline: 2, schedule: zb-v}").stages() == 4);
  CHECK(read("parallelism: {pipeline: 2, schedule: dual-pipe-v}").stages() == 4);
  CHECK(read("parallelism: {pipeline: 2, schedule: zb-h1}").stages() == 2);
  CHECK(read("parallelism: {overlap_weight_gradients: true}")
            .pipeline_options()
            .overlap_weight_gradients);
  // without a pipeline the schedule plays no part
  CHECK(read("parallelism: {schedule: zb-v}").pipeline_options().stages_per_rank == 1);
}

TEST_CASE("parallelism: tp_config sets the tensor degree unless parallelism.tensor does") {
  mpt::config_report report;
  CHECK(read("tp_config: {strategy: ffn, tensor_parallel_degree: 4}", report).tensor == 4);
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0].starts_with("tp_config.strategy ffn: attention, embedding and head"));
  CHECK(read("{tp_config: {tensor_parallel_degree: 4}, parallelism: {tensor: 2}}").tensor == 2);
}

TEST_CASE("parallelism: each invalid setting gives one message") {
  for (auto const& example : test::refused_settings("parallelism"))
    CHECK(test::message_of([&] { static_cast<void>(read(example.text)); }) == example.expected);
}

}  // namespace read_parallelism_test
