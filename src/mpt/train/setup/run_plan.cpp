#include <mpt/train/setup/run_plan.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <mpt/config/model/flops.hpp>
#include <mpt/config/model/linear_layers.hpp>
#include <mpt/console/format.hpp>
#include <mpt/console/table.hpp>
#include <parallel/train/process_groups.hpp>

namespace mpt {

train::memory_plan const& run_plan::for_pipeline_rank(int pipeline_rank) const {
  return by_stage.at(static_cast<std::size_t>(pipeline_rank));
}

double run_plan::recomputed_per_token(index sequence_length) const {
  return static_cast<double>(microbatch.operations - without_recomputation.operations) /
         static_cast<double>(split.microbatch * sequence_length);
}

train::stepper_options stepper_options_of(train_config const& config, run_plan const& plan) {
  auto out = stepper_options_of(config);
  out.reshard_after_forward = plan.reshard_after_forward;
  out.reduce_every_microbatch = plan.reduce_every_microbatch;
  return out;
}

utilisation utilisation_of(train_config const& config, run_plan const& plan, double peak_flops) {
  auto const length = config.train_loader.max_seq_len;
  return {
      .peak_flops = peak_flops,
      .flops_per_token = static_cast<double>(flops_per_token(config.model, length)),
      .causal_flops_per_token = static_cast<double>(causal_flops_per_token(config.model, length)),
      .recomputed_flops_per_token = plan.recomputed_per_token(length)};
}

std::size_t bytes_to_save(train_config const& config, train::memory_plan const& rank) {
  return rank.saved_weights + (config.checkpoint.save_weights_only ? 0 : rank.saved_states);
}

bool fits(run_plan const& plan) {
  return plan.available == 0 || plan.memory.total() <= plan.available;
}

void require_fits(run_plan const& plan) {
  auto const text = [](std::size_t bytes) { return console::bytes(static_cast<double>(bytes)); };
  require(fits(plan), "this run needs ", text(plan.memory.total()), " per rank, but only ",
          text(plan.available), " are available to each: parameters ", text(plan.memory.values),
          ", gradients ", text(plan.memory.gradients + plan.memory.trees), ", master weights ",
          text(plan.memory.master), ", optimizer ", text(plan.memory.optimizer), ", unit buffers ",
          text(plan.memory.buffers), ", operations' scratch ", text(plan.memory.scratch.total()),
          ", activations ", text(plan.memory.activations), " at a microbatch of ",
          plan.split.microbatch,
          "; use a smaller model, microbatch or sequence, zero_stage=3, "
          "fsdp_config.activation_checkpointing=true, a higher tensor or pipeline degree, or more "
          "machines");
}

std::string describe_layout(train_config const& config, training_layout const& layout) {
  auto const& p = config.parallelism;
  return fmt::format(
      "{}{}{}{}, ZeRO stage {}", layout.ranks(), layout.ranks() == 1 ? "" : ": " + layout.text(),
      p.tensor > 1 && p.sequence_parallel ? " (rows divided too)" : "",
      p.context == 1                                                 ? ""
      : p.context_method == parallel::context_parallel::method::ring ? " (ring attention)"
                                                                     : " (heads exchanged)",
      config.zero_stage);
}

std::string describe_sharding(train_config const& config, run_plan const& plan) {
  if (config.zero_stage < 2 || train::place_in(plan.layout, level_of(config)).shards == 1)
    return {};
  auto const automatic = [](std::optional<bool> const& setting) {
    return setting ? "" : " (automatic)";
  };
  std::vector<std::string> parts;
  if (config.zero_stage == 3)
    parts.push_back(fmt::format("values are gathered {}{}",
                                plan.reshard_after_forward ? "for every pass" : "once a step",
                                automatic(config.reshard_after_forward)));
  if (!is_canonical(config))
    parts.push_back(
        fmt::format("gradients are reduced {}{}",
                    plan.reduce_every_microbatch ? "after every microbatch" : "once a step",
                    automatic(config.reduce_every_microbatch)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string describe_stages(train_config const& config) {
  auto const& p = config.parallelism;
  auto const schedule =
      parallel::pipeline::make_schedule(p.schedule, p.pipeline, 2 * p.pipeline, p.stages_per_rank);
  std::vector<std::string> blocks;
  for (auto const& stage : parallel::pipeline::assign_blocks(
           schedule, static_cast<int>(config.model.n_layers), p.blocks_by_stage))
    blocks.push_back(std::to_string(stage.size()));
  return fmt::format("{}, {} stages of {} blocks", p.schedule, p.stages(),
                     detail::join_words(blocks));
}

std::string describe_plan(train_config const& config, run_plan const& plan, int ranks,
                          std::int64_t batches) {
  using console::bytes;
  using console::grouped;
  auto const size = [](std::size_t n) { return bytes(static_cast<double>(n)); };
  auto const& m = config.model;
  index const length = config.train_loader.max_seq_len;
  console::table out(fmt::format("plan of {}", config.run_name));
  out.row("parameters", grouped(parameter_count(m)));
  out.row("model", fmt::format("{} layers × {}, {} heads, vocabulary {}, {}", m.n_layers, m.d_model,
                               m.n_heads, grouped(m.vocab_size), positions_name(m)));
  bool const rounds = config.reduce_dtype == parallel::zero::reduce_dtype::bf16;
  if (m.lora)
    out.row("adapters",
            fmt::format("of rank {}{}, {} parameters, which alone are trained", m.lora->rank,
                        m.lora->rank_pattern.empty() ? "" : " (some of others)",
                        grouped(adapter_parameter_count(m))));
  out.row("precision", fmt::format("{}{}",
                                   config.precision == precision_kind::fp32 ? "fp32"
                                   : rounds ? "bf16, fp32 master weights"
                                            : "bf16, fp32 master weights and reductions",
                                   rounds ? ", gradients travel in bf16" : ""));
  auto const& optimizer = config.optimizer;
  out.row(
      "optimizer",
      fmt::format(
          "{}{}{}", optimizer.name,
          optimizer.groups.empty() ? "" : fmt::format(", {} groups", optimizer.groups.size() + 1),
          optimizer.disable_grad.empty() && config.callbacks.frozen_layers.empty()
              ? ""
              : ", partly frozen"));
  out.row("ranks", describe_layout(config, plan.layout));
  if (config.parallelism.pipeline > 1) out.row("pipeline", describe_stages(config));
  if (auto const text = describe_sharding(config, plan); !text.empty()) out.row("sharding", text);
  auto const data_rank_count = data_ranks(plan.layout);
  auto const larger_share_count =
      is_canonical(config) ? 0 : config.global_train_batch_size % data_rank_count;
  out.row(
      "batch",
      fmt::format("{} sequences of {} = {}{} × {} microbatches of {}{}{}",
                  config.global_train_batch_size, length, data_rank_count,
                  data_rank_count == ranks ? " ranks" : " data ranks", plan.split.accumulation,
                  plan.split.microbatch, plan.is_microbatch_automatic ? " (automatic)" : "",
                  larger_share_count == 0 ? ""
                                          : fmt::format("; {} have {} sequences, {} one less",
                                                        larger_share_count, plan.split.device_batch,
                                                        data_rank_count - larger_share_count)));
  if (is_canonical(config))
    out.row("reduction order",
            fmt::format("canonical, by microbatches of {}; {} of {} data ranks have sequences",
                        plan.split.microbatch,
                        (config.global_train_batch_size + plan.split.device_batch - 1) /
                            plan.split.device_batch,
                        data_rank_count));
  if (!plan.recompute.empty()) {
    auto const recomputed_blocks = std::ranges::count_if(
        plan.recompute, [](recomputation const& r) { return r != recomputation{}; });
    auto const operations = [](train::memory_plan const& memory) {
      return static_cast<double>(memory.operations);
    };
    out.row("recomputation",
            fmt::format(
                "{}in {} of {} blocks: activations of a microbatch {} instead of {}, {:.0f} % "
                "more operations",
                config.recompute ? "" : "norms and activation functions (automatic), ",
                recomputed_blocks, m.n_layers, size(plan.microbatch.activations),
                size(plan.without_recomputation.activations),
                100 * (operations(plan.microbatch) / operations(plan.without_recomputation) - 1)));
  }
  out.row("steps", grouped(batches));
  out.row("tokens",
          console::count(static_cast<double>(batches * config.global_train_batch_size * length)));
  auto const flops = static_cast<double>(flops_per_token(m, length));
  out.row("FLOPs per token",
          fmt::format("{} ({} + 12·L·d·S), causal {}", console::count(flops),
                      m.lora ? "4N + 6 of adapters" : "6N",
                      console::count(static_cast<double>(causal_flops_per_token(m, length)))));
  out.separator();
  out.row("memory per rank", size(plan.memory.total()));
  out.row("  parameters", size(plan.memory.values));
  out.row("  gradients", size(plan.memory.gradients));
  if (plan.memory.trees > 0) out.row("  gradients of microbatches", size(plan.memory.trees));
  out.row("  master weights", size(plan.memory.master));
  out.row("  optimizer", size(plan.memory.optimizer));
  if (plan.memory.offloaded > 0) out.row("  in the host's memory", size(plan.memory.offloaded));
  if (plan.memory.buffers > 0) out.row("  unit buffers", size(plan.memory.buffers));
  out.row("  activations", size(plan.memory.activations));
  if (plan.memory.scratch.total() > 0)
    out.row("  operations' scratch", size(plan.memory.scratch.total()));
  if (plan.by_stage.size() > 1) {
    std::string totals;
    for (auto const& stage : plan.by_stage)
      totals += (totals.empty() ? "" : ", ") + size(stage.total());
    out.row("by pipeline rank", totals);
  }
  if (plan.available > 0) out.row("available per rank", size(plan.available));
  if (!config.checkpoint.save_folder.empty()) {
    std::size_t largest = 0;
    for (auto const& stage : plan.by_stage)
      largest = std::max(largest, bytes_to_save(config, stage));
    out.row(
        "checkpoint per rank",
        fmt::format("{}, {}", size(largest),
                    plan.saves_in_background ? "copied to the host and written behind training"
                                             : "for which training stops: no memory for a copy"));
  }
  return out.text();
}

}  // namespace mpt
