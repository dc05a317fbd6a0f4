// Tests of the settings around the step: sharding, logging, and ParallelLM's own keys.
#include <string>

#include <doctest/doctest.h>

#include <mpt/config/run/read_system.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/support/files.hpp>

#include "mpt/config/refused_settings.hpp"

namespace read_system_test {

inline mpt::train_config read(std::string const& text,
                              mpt::precision_kind precision = mpt::precision_kind::amp_bf16) {
  auto const root = mpt::parse_yaml(text, "f.yaml");
  mpt::train_config config;
  config.execution.precision = precision;
  config.checkpoint.save_folder = "saved";  // to which a run can roll back
  mpt::config_reader reader(root, "", config.output.report);
  mpt::detail::read_system(reader, config.checkpoint, config.run, config.execution);
  mpt::detail::read_logging(reader, config.output);
  reader.finish();
  return config;
}

inline std::string problem(std::string const& text) {
  return test::message_of([&] { static_cast<void>(read(text)); });
}

TEST_CASE("reduction_order: by rank unless canonical is set") {
  using enum parallel::zero::reduction_order;
  CHECK(read("{}").execution.reduction_order == by_rank);
  CHECK(read("reduction_order: by_rank").execution.reduction_order == by_rank);
  CHECK(read("reduction_order: canonical").execution.reduction_order == canonical_tree);
  CHECK(problem("reduction_order: canonicla") ==
        "f.yaml:1:18: reduction_order: 'canonicla' is not an order of sums; there are by_rank, "
        "canonical");
}

TEST_CASE("reduce_dtype: fp32, or bf16 in the order by rank") {
  using enum parallel::zero::reduce_dtype;
  CHECK(read("{}").execution.reduce_dtype == full);
  CHECK(read("reduce_dtype: fp32").execution.reduce_dtype == full);
  auto const narrow = read("{reduce_dtype: bf16, fsdp_config: {mixed_precision: PURE}}");
  CHECK(narrow.execution.reduce_dtype == parallel::zero::reduce_dtype::bf16);
  CHECK(narrow.output.report.notes.empty());
  CHECK(problem("reduce_dtype: fp8") ==
        "f.yaml:1:15: reduce_dtype: 'fp8' is not a type of reductions; there are fp32, bf16");
  CHECK(problem("{reduce_dtype: bf16, reduction_order: canonical}") ==
        "f.yaml:1:16: reduce_dtype: bf16 is not for reduction_order canonical, which rounds "
        "nowhere; leave one out");
}

TEST_CASE("fsdp_config: strategies become ZeRO stages") {
  CHECK(read("{}").execution.zero_stage == 0);
  CHECK(read("{}").output.report.notes.empty());
  CHECK(read("fsdp_config:").execution.zero_stage == 0);
  CHECK(read("fsdp_config: {sharding_strategy: NO_SHARD}").execution.zero_stage == 0);
  auto const full = read("fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: PURE}");
  CHECK(full.execution.zero_stage == 3);
  CHECK_FALSE(full.execution.reshard_after_forward.has_value());  // the plan decides
  CHECK_FALSE(full.execution.parallelism.shard.has_value());
  REQUIRE(full.output.report.notes.size() == 1);
  CHECK(full.output.report.notes[0] ==
        "fsdp_config.mixed_precision PURE: gradients are reduced in fp32, not bf16; set "
        "reduce_dtype to bf16 for half the bytes");
  CHECK(read("fsdp_config: {sharding_strategy: SHARD_GRAD_OP}").execution.zero_stage == 2);
  auto const hybrid = read(
      "fsdp_config: {sharding_strategy: HYBRID_SHARD, "
      "data_parallel_shard_degree: 4, data_parallel_replicate_degree: 2}");
  CHECK(hybrid.execution.zero_stage == 3);
  CHECK(hybrid.execution.parallelism.shard == 4);
  CHECK(hybrid.execution.parallelism.replicate == 2);
  auto const plain = read("fsdp_config: {sharding_strategy: HYBRID_SHARD}");
  CHECK(plain.execution.zero_stage == 3);
  CHECK(plain.execution.parallelism.shard_within_node);
  CHECK_FALSE(plain.execution.parallelism.shard.has_value());
  auto const other = read(
      "fsdp_config: {sharding_strategy: _HYBRID_SHARD_ZERO2, "
      "data_parallel_shard_degree: -1, data_parallel_replicate_degree: 2}");
  CHECK(other.execution.zero_stage == 2);
  CHECK_FALSE(other.execution.parallelism.shard.has_value());
  CHECK(other.execution.parallelism.replicate == 2);
  CHECK(read("fsdp_config: {reshard_after_forward: false}").execution.reshard_after_forward ==
        false);
  CHECK(read("fsdp_config: {reshard_after_forward: true}").execution.reshard_after_forward == true);
  CHECK_FALSE(read("fsdp_config: {reshard_after_forward: auto}")
                  .execution.reshard_after_forward.has_value());
  CHECK_FALSE(read("{}").execution.reduce_every_microbatch.has_value());
  CHECK(read("reduce_every_microbatch: true").execution.reduce_every_microbatch == true);
  CHECK(read("fsdp_config: {mixed_precision: PURE}", mpt::precision_kind::fp32)
            .output.report.notes.empty());
  CHECK(read("{fsdp_config: {sharding_strategy: SHARD_GRAD_OP}, zero_stage: 0}")
            .execution.zero_stage == 0);
  CHECK(read("fsdp_config: {activation_checkpointing: true}").output.report.notes.empty());
}

TEST_CASE("system settings: ParallelLM's own keys are read") {
  auto const config = read(
      "{zero_stage: 1, ranks: 4, threads: 2, device_memory: 80GB, bucket_bytes: 1e6, dry_run: "
      "true, "
      "preflight: true, print_plan: true, "
      "dist_timeout: 60, deadlines: {step: 20, save: 100}, on_not_finite: roll_back, "
      "corruption_check: {interval: 100ba, on_transient: stop}, "
      "spike_check: {on_spike: roll_back, deviations: 4.5, window: 64}, "
      "progress_bar: yes, console_log_interval: 10ba}");
  CHECK(config.execution.zero_stage == 1);
  CHECK(config.execution.ranks == 4);
  CHECK(config.execution.threads == 2);
  CHECK(config.execution.bucket_bytes == 1'000'000);
  CHECK(config.execution.device_memory == 80'000'000'000);
  CHECK(config.run.dry_run);
  CHECK(config.run.preflight);
  CHECK(config.run.print_plan);
  CHECK(config.run.dist_timeout == 60);
  CHECK(config.run.deadlines.setup == 60);
  CHECK(config.run.deadlines.first_step == 60);
  CHECK(config.run.deadlines.step == 20);
  CHECK(config.run.deadlines.save == 100);
  CHECK(config.run.deadlines.load == 60);
  CHECK(config.run.on_not_finite == mpt::bad_batch_policy::roll_back);
  CHECK(mpt::to_string(config.run.corruption_check.interval) == "100ba");
  CHECK(config.run.corruption_check.on_transient == mpt::transient_policy::stop);
  CHECK(read("zero_stage: 1").run.corruption_check.interval.count == 0);
  REQUIRE(config.run.spike_check.has_value());
  CHECK(config.run.spike_check->on_spike == mpt::bad_batch_policy::roll_back);
  CHECK(config.run.spike_check->deviations == 4.5);
  CHECK(config.run.spike_check->window == 64);
  CHECK_FALSE(read("zero_stage: 1").run.spike_check.has_value());
  CHECK_FALSE(read("spike_check:").run.spike_check.has_value());
  auto const usual = read("spike_check: {}").run.spike_check;
  REQUIRE(usual.has_value());
  CHECK(usual->on_spike == mpt::bad_batch_policy::skip);
  CHECK(usual->deviations == 6);
  CHECK(usual->window == 128);
  CHECK(config.output.progress_bar);
  CHECK(mpt::to_string(config.output.console_log_interval) == "10ba");
}

TEST_CASE("system settings: each invalid one gives one message") {
  for (auto const& [text, message] : test::refused_settings("the system"))
    CHECK(problem(text) == message);
}

}  // namespace read_system_test
