#include <mpt/config/run/read_system.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include <mpt/yaml/reader.hpp>
#include <mpt/yaml/scalar.hpp>

namespace mpt {
namespace {

/// Reads true, false or auto; none stands for auto, the default, which the plan of the run decides.
[[nodiscard]] std::optional<bool> read_planned(config_reader& reader, std::string_view key) {
  if (reader.get<std::string>(key, "auto") == "auto") return std::nullopt;
  return reader.required<bool>(key);
}

/// Reads `fsdp_config`; without it the ranks are data parallel without sharding.
/// `execution.recompute` keeps its value where activation_checkpointing is on.
/// `execution.precision` and `config.execution.reduce_dtype` must be set before.
void read_fsdp(config_reader& parent, execution_config& execution) {
  bool const is_written = parent.has_key("fsdp_config");
  auto reader = parent.section("fsdp_config");
  auto& notes = parent.report().notes;
  auto const precision = execution.precision;
  auto const strategy = reader.one_of(
      "sharding_strategy", "FULL_SHARD",
      {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"});
  bool const shards_gradients = strategy == "SHARD_GRAD_OP" || strategy == "_HYBRID_SHARD_ZERO2";
  execution.zero_stage = !is_written || strategy == "NO_SHARD" ? 0 : shards_gradients ? 2 : 3;
  execution.reshard_after_forward = read_planned(reader, "reshard_after_forward");
  auto& degrees = execution.parallelism;
  auto const read_degree = [&](std::string_view key, std::optional<int>& out) {
    if (auto const count = detail::read_ranks(reader, key)) out = static_cast<int>(*count);
  };
  if (reader.get<std::int64_t>("data_parallel_shard_degree", -1) != -1)  // -1: all remaining ranks
    read_degree("data_parallel_shard_degree", degrees.shard);
  read_degree("data_parallel_replicate_degree", degrees.replicate);
  degrees.shard_within_node = strategy.find("HYBRID") != std::string::npos;
  if (config_node const* const node = reader.raw("mixed_precision");
      node != nullptr && !node->is_scalar())
    reader.fail("mixed_precision", "a mapping is not yet supported; use DEFAULT or PURE");
  auto const mixed = reader.one_of("mixed_precision", "DEFAULT", {"DEFAULT", "PURE", "FULL"});
  if (mixed == "PURE" && precision == precision_kind::amp_bf16 &&
      execution.reduce_dtype == parallel::zero::reduce_dtype::full)
    notes.emplace_back(
        "fsdp_config.mixed_precision PURE: gradients are reduced in fp32, not bf16; set "
        "reduce_dtype to bf16 for half the bytes");
  if (mixed == "FULL" && precision == precision_kind::amp_bf16)
    notes.emplace_back(
        "fsdp_config.mixed_precision FULL: parameters are bf16 with fp32 master weights; use "
        "precision fp32 for fp32 parameters");
  if (precision == precision_kind::fp32 && mixed != "DEFAULT")
    reader.report_without_effect("mixed_precision", "all is fp32");
  auto const recomputes_activations = read_planned(reader, "activation_checkpointing");
  if (!recomputes_activations)
    execution.recompute.reset();
  else if (!*recomputes_activations)
    execution.recompute = block_recomputation();
  for (std::string_view const key :
       {"activation_checkpointing_reentrant", "activation_cpu_offload", "auto_wrap",
        "backward_prefetch", "backward_prefetch_limit", "forward_prefetch",
        "forward_prefetch_limit", "limit_all_gathers", "sync_module_states", "use_orig_params",
        "process_group", "te_checkpoint_wrapper", "te_shard_fp8_weight", "verbose"})
    reader.accept_without_effect(key, "sharding needs no such choice here");
  for (std::string_view const key : {"state_dict_type", "sharded_ckpt_prefix_dir", "load_planner",
                                     "save_planner", "load_monolith_rank0_only"})
    reader.accept_without_effect(key, "checkpoints have one form");
  reader.refuse_unsupported("cpu_offload", "use false", {"false"});
  reader.refuse_unsupported("keep_low_precision_grads", "gradients are summed in fp32 (false)",
                            {"false"});
  reader.refuse_unsupported("ignored_modules", "leave it blank");
  reader.finish();
}

/// Names of the orders in which gradients and their metrics are summed.
constexpr std::array<std::pair<std::string_view, parallel::zero::reduction_order>, 2>
    reduction_order_names{{{"by_rank", parallel::zero::reduction_order::by_rank},
                           {"canonical", parallel::zero::reduction_order::canonical_tree}}};

/// Names of the types in which gradients are reduced.
constexpr std::array<std::pair<std::string_view, parallel::zero::reduce_dtype>, 2>
    reduce_dtype_names{{{"fp32", parallel::zero::reduce_dtype::full},
                        {"bf16", parallel::zero::reduce_dtype::bf16}}};

constexpr std::array<std::pair<std::string_view, bad_batch_policy>, 3> bad_batch_names{
    {{"stop", bad_batch_policy::stop},
     {"skip", bad_batch_policy::skip},
     {"roll_back", bad_batch_policy::roll_back}}};

constexpr std::array<std::pair<std::string_view, transient_policy>, 2> transient_names{
    {{"repeat", transient_policy::repeat}, {"stop", transient_policy::stop}}};

/// Reads `deadlines`; `run.dist_timeout`, the default of absent ones, must be set before.
void read_deadlines(config_reader& parent, run_config& run) {
  auto reader = parent.section("deadlines");
  auto& deadlines = run.deadlines;
  std::array<std::pair<std::string_view, double*>, 5> const phases{
      {{"setup", &deadlines.setup},
       {"first_step", &deadlines.first_step},
       {"step", &deadlines.step},
       {"save", &deadlines.save},
       {"load", &deadlines.load}}};
  for (auto const& [key, seconds] : phases) {
    // every part of the setup is short, and the process watchdog begins only after it
    *seconds =
        reader.get(key, key == "setup" ? std::min(run.dist_timeout, 120.0) : run.dist_timeout);
    reader.check(key, *seconds > 0 && *seconds <= 1e6,
                 "expected seconds above 0 and up to 1e6, found ", *seconds);
  }
  reader.finish();
}

/// Reports the sharding settings that have no effect at this ZeRO stage.
void report_unused_sharding_keys(config_reader& reader, execution_config const& execution) {
  auto fsdp = reader.members("fsdp_config");
  if (reader.has_key("zero_stage"))
    fsdp.report_without_effect("sharding_strategy", "zero_stage decides");
  if (execution.zero_stage < 3)
    fsdp.report_without_effect("reshard_after_forward", "parameters are divided at stage 3 alone");
  if (execution.zero_stage < 2)
    reader.report_without_effect("reduce_every_microbatch",
                                 "gradients are divided from stage 2 on");
}

}  // namespace

}  // namespace mpt

namespace mpt::detail {

std::optional<std::int64_t> read_ranks(config_reader& reader, std::string_view key) {
  constexpr std::int64_t largest_count = 4096;
  auto const count = reader.optional<std::int64_t>(key);
  reader.check(key, !count || (*count >= 1 && *count <= largest_count), "must be from 1 to ",
               largest_count, ", found ", count.value_or(0));
  return count;
}

void read_logging(config_reader& reader, output_config& output) {
  output.progress_bar = reader.get("progress_bar", output.progress_bar);
  output.log_to_console = reader.get("log_to_console", output.log_to_console);
  output.console_log_interval = reader.get("console_log_interval", output.console_log_interval);
  reader.check("console_log_interval", output.console_log_interval.count > 0, "must be above 0");
  if (output.progress_bar)
    reader.report_all_without_effect({"log_to_console", "console_log_interval"},
                                     "there is a progress bar");
  else if (!output.log_to_console)
    reader.report_without_effect("console_log_interval", "log_to_console is false");
}

void read_spike_check(config_reader& parent, run_config& run) {
  bool const is_written = parent.has_key("spike_check");
  auto reader = parent.section("spike_check");
  spike_check_config check;
  check.on_spike = read_name(reader, "on_spike", "skip", bad_batch_names, "a way to go on");
  check.deviations = reader.get("deviations", check.deviations);
  reader.check("deviations", check.deviations > 0 && check.deviations <= 1e6,
               "expected a number above 0 and up to 1e6, found ", check.deviations);
  check.window = reader.get("window", check.window);
  reader.check("window", check.window >= 4 && check.window <= 10000,
               "must be from 4 to 10000 updates, found ", check.window);
  reader.finish();
  if (is_written) run.spike_check = check;
}

void read_corruption_check(config_reader& parent, run_config& run) {
  auto reader = parent.section("corruption_check");
  auto& check = run.corruption_check;
  check.interval = reader.get("interval", check.interval);
  check.on_transient =
      read_name(reader, "on_transient", "repeat", transient_names, "a way to go on");
  if (check.interval.count == 0)
    reader.report_without_effect("on_transient", "interval is 0: nothing is looked for");
  reader.finish();
}

void read_system(config_reader& reader, checkpoint_config const& checkpoint, run_config& run,
                 execution_config& execution) {
  run.dist_timeout = reader.get("dist_timeout", run.dist_timeout);
  reader.check("dist_timeout", run.dist_timeout > 0 && run.dist_timeout <= 1e6,
               "expected seconds above 0 and up to 1e6, found ", run.dist_timeout);
  read_deadlines(reader, run);
  run.on_not_finite = read_name(reader, "on_not_finite", "stop", bad_batch_names, "a way to go on");
  read_spike_check(reader, run);
  bool const rolls_back =
      run.on_not_finite == bad_batch_policy::roll_back ||
      (run.spike_check && run.spike_check->on_spike == bad_batch_policy::roll_back);
  reader.check("on_not_finite", !rolls_back || !checkpoint.save_weights_only,
               "roll_back, here or in spike_check, needs checkpoints to go back to, which "
               "save_weights_only leaves the optimizer out of");
  reader.check("on_not_finite",
               !rolls_back || !checkpoint.save_folder.empty() || !checkpoint.load_path.empty(),
               "roll_back, here or in spike_check, needs save_folder, where the checkpoint to go "
               "back to is kept");
  read_corruption_check(reader, run);
  execution.reduction_order =
      read_name(reader, "reduction_order", "by_rank", reduction_order_names, "an order of sums");
  execution.reduce_dtype =
      read_name(reader, "reduce_dtype", "fp32", reduce_dtype_names, "a type of reductions");
  reader.check(
      "reduce_dtype",
      execution.reduce_dtype == parallel::zero::reduce_dtype::full || !is_canonical(execution),
      "bf16 is not for reduction_order canonical, which rounds nowhere; leave one out");
  read_fsdp(reader, execution);
  if (auto const stage = reader.optional<std::int64_t>("zero_stage")) {
    reader.check("zero_stage", *stage >= 0 && *stage <= 3, "expected 0, 1, 2 or 3, found ", *stage);
    execution.zero_stage = static_cast<int>(*stage);
    if (*stage == 0) execution.parallelism.shard_within_node = false;
  }
  execution.reduce_every_microbatch = read_planned(reader, "reduce_every_microbatch");
  report_unused_sharding_keys(reader, execution);
  execution.device = reader.one_of("device", execution.device, {"auto", "cpu", "cuda", "kokkos"});
  execution.ranks = read_ranks(reader, "ranks");
  execution.threads = read_ranks(reader, "threads");
  if (auto const memory = reader.get<std::string>("device_memory", ""); !memory.empty()) {
    auto const bytes = parse_bytes(memory);
    reader.check("device_memory", bytes.has_value(),
                 "expected a size such as 80GB or 24GiB, found '", printable(memory), "'");
    execution.device_memory = static_cast<std::size_t>(*bytes);
  }
  execution.deterministic = reader.get("deterministic", execution.deterministic);
  execution.cuda_graphs = reader.get("cuda_graphs", execution.cuda_graphs);
  execution.offload_optimizer = reader.get("offload_optimizer", execution.offload_optimizer);
  execution.bucket_bytes = reader.get("bucket_bytes", execution.bucket_bytes);
  reader.check("bucket_bytes", execution.bucket_bytes >= 4096, "must be at least 4096, found ",
               execution.bucket_bytes);
  run.dry_run = reader.get("dry_run", run.dry_run);
  run.preflight = reader.get("preflight", run.preflight);
  run.compare_inputs = reader.one_of("compare_inputs", "sampled", {"sampled", "whole"}) == "whole"
                           ? checksum_extent::whole
                           : checksum_extent::sampled;
  run.print_plan = reader.get("print_plan", run.print_plan);
  run.profile = reader.get("profile", run.profile);
  run.compares_layouts = reader.get("plan", run.compares_layouts);
  run.cluster = reader.get<std::string>("cluster", "");
  run.measure = reader.get<std::string>("measure", "");
}

}  // namespace mpt::detail
