// What a run will need, before anything is allocated: memory per rank, microbatch, tokens, steps.
//
// Everything is measured by running the step on the meta device. The automatic microbatch is the
// largest that fits the memory that is there, halving from the rank's whole batch; nothing is ever
// tried by running out of memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include <mpt/config/train.hpp>
#include <mpt/console/format.hpp>
#include <mpt/console/table.hpp>
#include <mpt/model/model.hpp>
#include <mpt/train/layout.hpp>
#include <mpt/train/parameter_groups.hpp>
#include <mpt/train/sequences.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/train/plan.hpp>

namespace mpt {

/// Bytes the system says could still be used (MemAvailable); 0 when it does not tell.
[[nodiscard]] inline std::size_t available_memory() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("MemAvailable:")) return std::stoull(line.substr(13)) * 1024;
  return 0;
}

/// One rank's plan.
struct run_plan {
  batch_split split;
  train::memory_plan memory;      // activations: the larger of training's and evaluation's
  std::size_t available = 0;      // what each rank may use; 0: unknown
  bool automatic = false;         // the microbatch was chosen here
  train::memory_plan microbatch;  // one of training: activations and operations
  train::memory_plan keeping;     // the same if nothing were recomputed

  /// Floating-point operations a token that recomputation adds.
  [[nodiscard]] double recomputed_per_token(index sequence_length) const {
    return static_cast<double>(microbatch.operations - keeping.operations) /
           static_cast<double>(split.microbatch * sequence_length);
  }
};

/// Plans a run of T on `ranks` ranks, `ranks_here` of them on this machine.
template <class T>
[[nodiscard]] run_plan plan_run(train_config const& config, int ranks, int ranks_here) {
  model<T> net(config.model, {}, config.recompute);
  run_plan plan;
  plan.available = available_memory() / 10 * 9 / static_cast<std::size_t>(ranks_here);
  plan.automatic = !config.device_train_microbatch_size.has_value();
  auto const layout = run_layout(config, ranks);
  plan.memory = train::plan_units(net, groups_of(config, net), stage_of(config),
                                  {.shards = layout.degree<parallel::axis::shard>(),
                                   .replicas = layout.degree<parallel::axis::replicate>()},
                                  config.reshard_after_forward);

  index const length = config.train_loader.max_seq_len;
  // of all counts up to `count`: the last batch may be smaller, and a smaller one may need more,
  // because its logits make fewer chunks (head::chunk_rows)
  auto const largest = [](index count, auto const& bytes_of) {
    std::size_t most = 0;
    for (index n = 1; n <= count; ++n) most = std::max(most, bytes_of(n));
    return most;
  };
  auto const activations = [&](index microbatch) {
    std::size_t most = largest(microbatch, [&](index n) {
      auto const step = train::plan_microbatch(net, sequences::shape_of(n, length));
      plan.memory.operations = step.operations;  // in the end those of a full one
      return step.activations;
    });
    for (auto const& loader : config.eval_loaders)
      most =
          std::max(most, largest(config.evaluation.device_eval_batch_size, [&](index n) {
                     return train::plan_evaluation(net, sequences::shape_of(n, loader.max_seq_len));
                   }));
    return most;
  };
  auto microbatch = split_batch(config, ranks, config.global_train_batch_size).microbatch;
  plan.memory.activations = activations(microbatch);
  while (plan.automatic && microbatch > 1 && plan.available > 0 &&
         plan.memory.total() > plan.available) {
    microbatch /= 2;
    plan.memory.activations = activations(microbatch);
  }
  plan.split = split_batch(config, ranks, microbatch);
  auto const shape = sequences::shape_of(plan.split.microbatch, length);
  plan.microbatch = plan.keeping = train::plan_microbatch(net, shape);
  if (!config.recompute.empty())
    plan.keeping = train::plan_microbatch(model<T>(config.model), shape);
  return plan;
}

/// Refuses a plan that does not fit, saying what to change.
inline void require_fits(run_plan const& plan) {
  auto const text = [](std::size_t bytes) { return console::bytes(static_cast<double>(bytes)); };
  require(plan.available == 0 || plan.memory.total() <= plan.available, "this run needs ",
          text(plan.memory.total()), " per rank, but only ", text(plan.available),
          " are available to each: parameters ", text(plan.memory.values), ", gradients ",
          text(plan.memory.gradients), ", master weights ", text(plan.memory.master),
          ", optimizer ", text(plan.memory.optimizer), ", windows ", text(plan.memory.windows),
          ", activations ", text(plan.memory.activations), " at a microbatch of ",
          plan.split.microbatch,
          "; use a smaller model, microbatch or sequence, zero_stage=3, "
          "fsdp_config.activation_checkpointing=true, or more machines");
}

/// What dry_run=true prints.
[[nodiscard]] inline std::string describe_plan(train_config const& config, run_plan const& plan,
                                               int ranks, std::int64_t batches) {
  using console::bytes;
  using console::grouped;
  auto const size = [](std::size_t n) { return bytes(static_cast<double>(n)); };
  auto const& m = config.model;
  index const length = config.train_loader.max_seq_len;
  console::table out(fmt::format("plan of {}", config.run_name));
  out.row("parameters", grouped(parameter_count(m)));
  out.row("model", fmt::format("{} layers × {}, {} heads, vocabulary {}, {}", m.n_layers, m.d_model,
                               m.n_heads, grouped(m.vocab_size), positions_name(m)));
  out.row("precision", config.precision == precision_kind::fp32
                           ? "fp32"
                           : "bf16, fp32 master weights and reductions");
  auto const& optimizer = config.optimizer;
  out.row(
      "optimizer",
      fmt::format(
          "{}{}{}", optimizer.name,
          optimizer.groups.empty() ? "" : fmt::format(", {} groups", optimizer.groups.size() + 1),
          optimizer.disable_grad.empty() && config.callbacks.frozen_layers.empty()
              ? ""
              : ", partly frozen"));
  out.row("ranks", fmt::format("{}, ZeRO stage {} ({})", ranks, config.zero_stage,
                               run_layout(config, ranks).text()));
  out.row("batch",
          fmt::format("{} sequences of {} = {} ranks × {} microbatches of {}{}",
                      config.global_train_batch_size, length, ranks, plan.split.accumulation,
                      plan.split.microbatch, plan.automatic ? " (automatic)" : ""));
  if (!config.recompute.empty()) {
    auto const again = std::ranges::count_if(
        config.recompute, [](recomputation const& r) { return r != recomputation{}; });
    auto const operations = [](train::memory_plan const& of) {
      return static_cast<double>(of.operations);
    };
    out.row(
        "recomputation",
        fmt::format("in {} of {} blocks: activations of a microbatch {} instead of {}, {:.0f} % "
                    "more operations",
                    again, m.n_layers, size(plan.microbatch.activations),
                    size(plan.keeping.activations),
                    100 * (operations(plan.microbatch) / operations(plan.keeping) - 1)));
  }
  out.row("steps", grouped(batches));
  out.row("tokens",
          console::count(static_cast<double>(batches * config.global_train_batch_size * length)));
  auto const flops = static_cast<double>(flops_per_token(m, length));
  out.row("FLOPs per token",
          fmt::format("{} (6N + 12·L·d·S), causal {}", console::count(flops),
                      console::count(static_cast<double>(causal_flops_per_token(m, length)))));
  out.rule();
  out.row("memory per rank", size(plan.memory.total()));
  out.row("  parameters", size(plan.memory.values));
  out.row("  gradients", size(plan.memory.gradients));
  out.row("  master weights", size(plan.memory.master));
  out.row("  optimizer", size(plan.memory.optimizer));
  if (plan.memory.windows > 0) out.row("  windows", size(plan.memory.windows));
  out.row("  activations", size(plan.memory.activations));
  if (plan.available > 0) out.row("available per rank", size(plan.available));
  return out.text();
}

}  // namespace mpt
