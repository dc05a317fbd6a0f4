#include <mpt/train/setup/run_plan.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <mpt/config/model/linear_layers.hpp>
#include <mpt/config/model/sizes.hpp>
#include <mpt/console/format.hpp>
#include <mpt/console/table.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/tensor/expert_ranks.hpp>
#include <parallel/train/process_groups.hpp>

namespace mpt {
namespace {

[[nodiscard]] std::string size_text(std::size_t bytes) {
  return console::bytes(static_cast<double>(bytes));
}

}  // namespace

train::memory_plan const& run_plan::for_pipeline_rank(int pipeline_rank) const {
  return by_pipeline_rank.at(static_cast<std::size_t>(pipeline_rank));
}

double run_plan::recomputed_per_token(index sequence_length) const {
  return static_cast<double>(microbatch.operations - without_recomputation.operations) /
         static_cast<double>(split.microbatch * sequence_length);
}

train::stepper_options stepper_options_of(optimizer_config const& optimizer,
                                          execution_config const& execution, run_config const& run,
                                          run_plan const& plan) {
  auto out = stepper_options_of(optimizer, execution, run);
  out.reshard_after_forward = plan.reshard_after_forward;
  out.reduce_every_microbatch = plan.reduce_every_microbatch;
  return out;
}

utilisation utilisation_of(model_config const& model, data_config const& data, run_plan const& plan,
                           double peak_flops) {
  auto const length = data.train_loader.max_seq_len;
  return {.peak_flops = peak_flops,
          .flops_per_token = static_cast<double>(flops_per_token(model, length)),
          .causal_flops_per_token = static_cast<double>(causal_flops_per_token(model, length)),
          .recomputed_flops_per_token = plan.recomputed_per_token(length)};
}

std::size_t bytes_to_save(checkpoint_config const& checkpoint, train::memory_plan const& rank) {
  return rank.saved_weights + (checkpoint.save_weights_only ? 0 : rank.saved_states);
}

bool fits(run_plan const& plan) {
  return plan.available == 0 || plan.memory.total() <= plan.available;
}

void require_fits(run_plan const& plan) {
  require(fits(plan), "this run needs ", size_text(plan.memory.total()), " per rank, but only ",
          size_text(plan.available), " are available to each: parameters ",
          size_text(plan.memory.values), ", gradients ",
          size_text(plan.memory.gradients + plan.memory.trees), ", master weights ",
          size_text(plan.memory.master), ", optimizer ", size_text(plan.memory.optimizer),
          ", unit buffers ", size_text(plan.memory.buffers), ", operations' scratch ",
          size_text(plan.memory.scratch.total()), ", activations ",
          size_text(plan.memory.activations), " at a microbatch of ", plan.split.microbatch,
          "; use a smaller model, microbatch or sequence, zero_stage=3, "
          "fsdp_config.activation_checkpointing=true, a higher tensor or pipeline degree, or more "
          "machines");
}

std::string describe_layout(execution_config const& execution, training_layout const& layout) {
  auto const& p = execution.parallelism;
  return fmt::format(
      "{}{}{}{}{}, ZeRO stage {}", layout.ranks(), layout.ranks() == 1 ? "" : ": " + layout.text(),
      p.expert == 1 ? "" : fmt::format(" (experts over {})", p.expert),
      p.tensor > 1 && p.sequence_parallel ? " (sequence parallel)" : "",
      p.context == 1                                                 ? ""
      : p.context_method == parallel::context_parallel::method::ring ? " (ring attention)"
                                                                     : " (Ulysses attention)",
      execution.zero_stage);
}

std::string describe_sharding(execution_config const& execution, run_plan const& plan) {
  if (execution.zero_stage < 2 || train::place_in(plan.layout, level_of(execution)).shards == 1)
    return {};
  // A mark for choices that the configuration leaves to the plan.
  auto const automatic = [](std::optional<bool> const& setting) {
    return setting ? "" : " (automatic)";
  };
  std::vector<std::string> parts;
  if (execution.zero_stage == 3)
    parts.push_back(fmt::format("values are gathered {}{}",
                                plan.reshard_after_forward ? "for every pass" : "once a step",
                                automatic(execution.reshard_after_forward)));
  if (!is_canonical(execution))
    parts.push_back(
        fmt::format("gradients are reduced {}{}",
                    plan.reduce_every_microbatch ? "after every microbatch" : "once a step",
                    automatic(execution.reduce_every_microbatch)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string describe_stages(model_config const& model, parallelism_config const& parallelism) {
  auto const& p = parallelism;
  int const microbatches =
      2 * p.pipeline;  // every schedule accepts so many, and its stages do not depend on it
  auto const schedule =
      parallel::pipeline::make_schedule(p.schedule, p.pipeline, microbatches, p.stages_per_rank);
  std::vector<std::string> blocks;
  for (auto const& stage : parallel::pipeline::assign_blocks(
           schedule, static_cast<int>(model.n_layers), p.blocks_by_stage))
    blocks.push_back(std::to_string(stage.size()));
  return fmt::format("{}, {} stages of {} blocks", p.schedule, p.stages(),
                     detail::join_words(blocks));
}

namespace {

/// The blocks with experts of which a backward pass runs the feed-forward layer again.
[[nodiscard]] index recomputed_mixtures(model_config const& model, run_plan const& plan) {
  index out = 0;
  for (std::size_t i = 0; i < plan.recompute.size(); ++i) {
    auto const& r = plan.recompute[i];
    bool const repeats = r.block || r.feed_forward || r.feed_forward_branch;
    if (repeats && experts_of_layer(model, static_cast<index>(i)) != nullptr) ++out;
  }
  return out;
}

/// What experts the model has, and what it costs to divide them among ranks.
[[nodiscard]] std::string describe_experts(model_config const& model,
                                           execution_config const& execution, run_plan const& plan,
                                           index length) {
  auto const& experts = *model.experts;
  auto const& p = execution.parallelism;
  auto out = fmt::format("{} of {} for each token, {} layers", experts.top_k, experts.count,
                         expert_layer_count(model));
  if (p.expert == 1) return out;
  parallel::tensor::expert_ranks<parallel::any_communicator> ranks;
  ranks.experts = decltype(ranks.experts)::planned(0, p.expert);
  ranks.buffer = &p.expert_buffer;
  index const rows = plan.split.microbatch * length / p.context;
  index const bytes = execution.precision == precision_kind::fp32 ? 4 : 2;
  // two exchanges forward and two backward; those forward again where a block is recomputed
  index const exchanges = 4 * expert_layer_count(model) + 2 * recomputed_mixtures(model, plan);
  index const sent = exchanges * (p.expert - 1) * model.d_model * bytes *
                     ranks.block_rows(rows, experts.top_k, experts.count);
  index const weights = expert_layer_count(model) * experts.count * ffn_matrix_count(model) *
                        model.d_model * expert_hidden(model) / p.tensor;
  return out + fmt::format(
                   "; divided among {} ranks, {} each: {} of {} weights of experts on a rank, {} "
                   "sent by it in a microbatch",
                   p.expert, experts.count / p.expert,
                   console::count(static_cast<double>(weights / p.expert)),
                   console::count(static_cast<double>(weights)),
                   console::bytes(static_cast<double>(sent)));
}

/// Adds the model, its adapters, the precision and the optimizer.
void add_model_rows(console::table& table, model_config const& model,
                    optimizer_config const& optimizer, execution_config const& execution) {
  table.row("parameters",
            console::grouped(parameter_count(model)) +
                (model.experts ? fmt::format(", of which a token uses {}",
                                             console::grouped(used_parameter_count(model)))
                               : ""));
  table.row("model", fmt::format("{} layers × {}, {} heads, vocabulary {}, {}", model.n_layers,
                                 model.d_model, model.n_heads, console::grouped(model.vocab_size),
                                 positions_name(model)));
  bool const reduces_in_bf16 = execution.reduce_dtype == parallel::zero::reduce_dtype::bf16;
  if (model.lora)
    table.row("adapters",
              fmt::format("of rank {}{}, {} parameters, only these are trained", model.lora->rank,
                          model.lora->rank_pattern.empty() ? "" : " (some of other ranks)",
                          console::grouped(adapter_parameter_count(model))));
  table.row("precision", fmt::format("{}{}",
                                     execution.precision == precision_kind::fp32 ? "fp32"
                                     : reduces_in_bf16 ? "bf16, fp32 master weights"
                                                       : "bf16, fp32 master weights and reductions",
                                     reduces_in_bf16 ? ", gradients are sent in bf16" : ""));
  table.row(
      "optimizer",
      fmt::format(
          "{}{}{}", optimizer.name,
          optimizer.groups.empty() ? "" : fmt::format(", {} groups", optimizer.groups.size() + 1),
          optimizer.disable_grad.empty() && optimizer.frozen_layers.empty() ? ""
                                                                            : ", partly frozen"));
}

/// Adds how `ranks` ranks divide the model and the batch.
void add_rank_rows(console::table& table, model_config const& model, data_config const& data,
                   execution_config const& execution, run_plan const& plan, int ranks) {
  table.row("ranks", describe_layout(execution, plan.layout));
  if (model.experts)
    table.row("experts", describe_experts(model, execution, plan, data.train_loader.max_seq_len));
  if (execution.parallelism.pipeline > 1)
    table.row("pipeline", describe_stages(model, execution.parallelism));
  if (auto const text = describe_sharding(execution, plan); !text.empty())
    table.row("sharding", text);
  auto const data_rank_count = data_ranks(plan.layout);
  // The data ranks that have one sequence more, where the batch is not divisible.
  auto const larger_share_count =
      is_canonical(execution) ? 0 : data.global_train_batch_size % data_rank_count;
  table.row(
      "batch",
      fmt::format("{} sequences of {} = {}{} × {} microbatches of {}{}{}",
                  data.global_train_batch_size, data.train_loader.max_seq_len, data_rank_count,
                  data_rank_count == ranks ? " ranks" : " data ranks", plan.split.accumulation,
                  plan.split.microbatch, plan.is_microbatch_automatic ? " (automatic)" : "",
                  larger_share_count == 0 ? ""
                                          : fmt::format("; {} have {} sequences, {} one less",
                                                        larger_share_count, plan.split.device_batch,
                                                        data_rank_count - larger_share_count)));
  if (is_canonical(execution))
    table.row("reduction order",
              fmt::format("canonical, by microbatches of {}; {} of {} data ranks have sequences",
                          plan.split.microbatch,
                          (data.global_train_batch_size + plan.split.device_batch - 1) /
                              plan.split.device_batch,
                          data_rank_count));
}

/// Adds which activations the backward pass recomputes, and at which cost.
void add_recomputation_row(console::table& table, model_config const& model,
                           execution_config const& execution, run_plan const& plan) {
  if (plan.recompute.empty()) return;
  auto const recomputed_blocks = std::ranges::count_if(
      plan.recompute, [](recomputation const& r) { return r != recomputation{}; });
  auto const operations = [](train::memory_plan const& memory) {
    return static_cast<double>(memory.operations);
  };
  table.row("recomputation",
            fmt::format(
                "{}in {} of {} blocks: activations of a microbatch {} instead of {}, {:.0f} % "
                "more operations",
                execution.recompute ? "" : "norms and activation functions (automatic), ",
                recomputed_blocks, model.n_layers, size_text(plan.microbatch.activations),
                size_text(plan.without_recomputation.activations),
                100 * (operations(plan.microbatch) / operations(plan.without_recomputation) - 1)));
}

/// Adds the steps, tokens and operations of the whole run.
void add_work_rows(console::table& table, model_config const& model, data_config const& data,
                   std::int64_t batches) {
  index const length = data.train_loader.max_seq_len;
  table.row("steps", console::grouped(batches));
  table.row("tokens",
            console::count(static_cast<double>(batches * data.global_train_batch_size * length)));
  auto const flops = static_cast<double>(flops_per_token(model, length));
  table.row(
      "FLOPs per token",
      fmt::format("{} ({} + 12·L·d·S), causal {}", console::count(flops),
                  model.lora ? "4N + 6A" : "6N",
                  console::count(static_cast<double>(causal_flops_per_token(model, length)))));
}

/// Adds the memory of the rank that needs most.
void add_memory_rows(console::table& table, run_plan const& plan) {
  table.row("memory per rank", size_text(plan.memory.total()));
  table.row("  parameters", size_text(plan.memory.values));
  table.row("  gradients", size_text(plan.memory.gradients));
  if (plan.memory.trees > 0) table.row("  gradients of microbatches", size_text(plan.memory.trees));
  table.row("  master weights", size_text(plan.memory.master));
  table.row("  optimizer", size_text(plan.memory.optimizer));
  if (plan.memory.offloaded > 0)
    table.row("  moved to the host's memory", size_text(plan.memory.offloaded));
  if (plan.memory.buffers > 0) table.row("  unit buffers", size_text(plan.memory.buffers));
  table.row("  activations", size_text(plan.memory.activations));
  if (plan.memory.scratch.total() > 0)
    table.row("  operations' scratch", size_text(plan.memory.scratch.total()));
  if (plan.by_pipeline_rank.size() > 1) {
    std::string totals;
    for (auto const& rank : plan.by_pipeline_rank)
      totals += (totals.empty() ? "" : ", ") + size_text(rank.total());
    table.row("by pipeline rank", totals);
  }
  if (plan.available > 0) table.row("available per rank", size_text(plan.available));
}

/// Adds the largest part of a checkpoint that a rank writes.
void add_checkpoint_row(console::table& table, checkpoint_config const& checkpoint,
                        run_plan const& plan) {
  if (checkpoint.save_folder.empty()) return;
  std::size_t largest = 0;
  for (auto const& rank : plan.by_pipeline_rank)
    largest = std::max(largest, bytes_to_save(checkpoint, rank));
  table.row(
      "checkpoint per rank",
      fmt::format("{}, {}", size_text(largest),
                  plan.saves_in_background ? "copied to the host and written in the background"
                                           : "training stops while it is written: no memory for "
                                             "a copy"));
}

}  // namespace

std::string describe_plan(train_config const& config, run_plan const& plan, int ranks,
                          std::int64_t batches) {
  console::table table(fmt::format("plan of {}", config.run.name));
  add_model_rows(table, config.model, config.optimizer, config.execution);
  add_rank_rows(table, config.model, config.data, config.execution, plan, ranks);
  add_recomputation_row(table, config.model, config.execution, plan);
  add_work_rows(table, config.model, config.data, batches);
  table.separator();
  add_memory_rows(table, plan);
  add_checkpoint_row(table, config.checkpoint, plan);
  return table.text();
}

}  // namespace mpt
