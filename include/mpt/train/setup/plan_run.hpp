// plan_run: a run is planned by running its steps on the meta device.
//
// The automatic microbatch is the largest that fits the available memory, found by halving from the
// rank's whole batch. Cheap activations are recomputed where that makes room for more sequences.
// Memory that is left over saves exchanges. Planning never tries a size by running out of memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/generate/decoder.hpp>
#include <mpt/model/model.hpp>
#include <mpt/model/sequences.hpp>
#include <mpt/train/data/row_lengths.hpp>
#include <mpt/train/setup/decoder_rooms.hpp>
#include <mpt/train/setup/layout.hpp>
#include <mpt/train/setup/parameter_groups.hpp>
#include <mpt/train/setup/run_mesh.hpp>
#include <mpt/train/setup/run_plan.hpp>
#include <mpt/train/setup/run_stages.hpp>
#include <mpt/train/setup/step_plans.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/setup/spare_exchanges.hpp>
#include <parallel/train/step/step_plans.hpp>

namespace mpt {

namespace detail {

/// Plans the memory of the forward and backward passes of one pipeline rank, as `split` divides its
/// batch.
template <class T>
[[nodiscard]] train::pass_memory_plan plan_passes(train_config const& config, model<T> const& net,
                                                  train::stages_of_rank& stages,
                                                  batch_split const& split) {
  index const context = config.parallelism.context;
  auto const count =
      static_cast<std::size_t>(stages.least_microbatches(static_cast<int>(split.accumulation)));
  train::pass_memory_plan largest;
  auto const plan = [&](std::size_t microbatches, std::span<microbatch const> batches, pass mode) {
    auto const planned = train::plan_passes(net, stages, microbatches, batches, mode,
                                            {.deterministic = config.deterministic});
    largest.cover(planned);
    return planned.activations;
  };
  // shorter rows are planned too: they may need more, as smaller batches may
  for (auto const length : row_lengths(config)) {
    std::vector sizes{sequences::shape_of(split.microbatch, length / context)};
    for (auto const rest : split.remainders)
      sizes.push_back(sequences::shape_of(rest, length / context));
    plan(count, sizes, pass::training);
  }
  for (auto const& loader : config.eval_loaders) {
    // the last batch may have any size; a smaller one may need more, as its logits make fewer
    // chunks
    std::vector<microbatch> batch_sizes;
    for (index n = 1; n <= config.evaluation.device_eval_batch_size; ++n)
      batch_sizes.push_back(sequences::shape_of(n, loader.max_seq_len / context));
    if (config.parallelism.pipeline > 1)
      plan(static_cast<std::size_t>(config.parallelism.pipeline), batch_sizes, pass::inference);
    else
      for (auto const& batch : batch_sizes) plan(1, {&batch, 1}, pass::inference);
  }
  for (auto const& room : decoder_rooms(config))
    largest.cover({.activations = decoder_bytes(net, room, stages.ranges(),
                                                [&](microbatch const& batch) {
                                                  return plan(static_cast<std::size_t>(
                                                                  config.parallelism.pipeline),
                                                              {&batch, 1}, pass::inference);
                                                }),
                   .scratch = {}});
  return largest;
}

}  // namespace detail

namespace detail {

/// Plans a run whose blocks recompute what `recompute` says.
template <class T>
[[nodiscard]] run_plan plan_with_recomputation(train_config const& config, int ranks,
                                               std::size_t available,
                                               std::optional<std::size_t> host,
                                               block_recomputation recompute) {
  run_plan plan;
  plan.layout = run_layout(config, ranks);
  plan.recompute = std::move(recompute);
  plan.available = available;
  plan.is_microbatch_automatic = !config.device_train_microbatch_size.has_value();
  model<T> net(config.model, planned_groups(config), plan.recompute);
  auto const groups = groups_of(config, net);
  std::vector<train::stages_of_rank> stages;
  std::int64_t const leaves =
      is_canonical(config) ? split_batch(config, data_ranks(plan.layout)).accumulation : 0;
  for (int p = 0; p < config.parallelism.pipeline; ++p) stages.push_back(stages_of(config, p));
  plan.by_stage.resize(stages.size());
  auto const update_maximum = [&] {
    plan.memory = *std::ranges::max_element(plan.by_stage, {}, &train::memory_plan::total);
  };
  auto const plan_memory = [&] {
    for (std::size_t p = 0; p < stages.size(); ++p) {
      auto const previous = plan.by_stage[p];
      plan.by_stage[p] =
          train::plan_units(net, groups, stages[p], train::place_in(plan.layout, level_of(config)),
                            stepper_options_of(config, plan), static_cast<std::size_t>(leaves));
      plan.by_stage[p].activations = previous.activations;
      plan.by_stage[p].scratch = previous.scratch;
    }
    update_maximum();
  };
  auto const spare_exchanges = [&](std::size_t memory, bool several_microbatches) {
    if (train::place_in(plan.layout, level_of(config)).shards == 1) return;
    auto const plan_memory_with = [&](train::stepper_options const& candidate) {
      plan.reshard_after_forward = candidate.reshard_after_forward;
      plan.reduce_every_microbatch = candidate.reduce_every_microbatch;
      plan_memory();
      return plan.memory.total();
    };
    auto options = stepper_options_of(config, plan);
    train::spare_exchanges(
        options, memory, plan_memory_with,
        {!config.reshard_after_forward, several_microbatches && !config.reduce_every_microbatch});
    plan_memory_with(options);
  };
  auto const choose_microbatch = [&](index microbatch) {
    plan.split = split_batch(config, data_ranks(plan.layout), microbatch);
    for (std::size_t p = 0; p < stages.size(); ++p) {
      auto const passes = plan_passes(config, net, stages[p], plan.split);
      plan.by_stage[p].activations = passes.activations;
      if (host)
        plan.by_stage[p].scratch = passes.scratch;  // an update needs less than matrix products
    }
    update_maximum();
  };
  plan.reshard_after_forward = config.reshard_after_forward.value_or(true);
  plan.reduce_every_microbatch = config.reduce_every_microbatch.value_or(true);
  plan_memory();
  spare_exchanges(0, true);
  choose_microbatch(config.global_train_batch_size);
  while (plan.is_microbatch_automatic && plan.split.microbatch > 1 && !fits(plan))
    choose_microbatch(plan.split.microbatch / 2);
  auto const microbatches =
      stages.front().least_microbatches(static_cast<int>(plan.split.accumulation));
  spare_exchanges(plan.available == 0 ? std::size_t(-1) : plan.available, microbatches > 1);
  for (auto const& stage : plan.by_stage) {  // last, so that copies never shrink the microbatch
    std::size_t const room = host.value_or(available);
    std::size_t const used = host ? stage.offloaded : stage.total();
    if (room > 0 && used + bytes_to_save(config, stage) > room) plan.saves_in_background = false;
  }
  auto const rank_shape = sequences::shape_of(
      plan.split.microbatch, config.train_loader.max_seq_len / config.parallelism.context);
  for (std::size_t p = 0; p < stages.size(); ++p)
    for (auto const& [name, count] : train::count_operations(net, rank_shape, stages[p].ranges()))
      plan.by_stage[p].operations += count;
  plan.memory.operations =
      std::ranges::max_element(plan.by_stage, {}, &train::memory_plan::operations)->operations;
  auto const full_shape =
      sequences::shape_of(plan.split.microbatch, config.train_loader.max_seq_len);
  plan.microbatch = plan.without_recomputation =
      train::plan_microbatch(model<T>(config.model, {}, plan.recompute), full_shape);
  if (!plan.recompute.empty())
    plan.without_recomputation = train::plan_microbatch(model<T>(config.model), full_shape);
  return plan;
}

/// Whether a microbatch of twice as many rows would pay for recomputing cheap activations.
/// Recomputation moves 24 d bytes a row and block through memory in bf16 (two norms, and an
/// activation function of width 4 d); gradients of 12 d^2 parameters a block move 96 d^2 bytes a
/// microbatch, of n rows: half as often saves 48 d^2 / n bytes a row, which is more below n = 2 d.
[[nodiscard]] bool recomputation_pays(train_config const& config, run_plan const& plan);

}  // namespace detail

template <class T>
run_plan plan_run(train_config const& config, int ranks, std::size_t available,
                  std::optional<std::size_t> host) {
  auto const plan_with = [&](block_recomputation recompute) {
    return detail::plan_with_recomputation<T>(config, ranks, available, host, std::move(recompute));
  };
  auto plan = plan_with(config.recompute.value_or(block_recomputation()));
  if (config.recompute || (fits(plan) && !detail::recomputation_pays(config, plan))) return plan;
  auto recomputing =
      plan_with(with_cheap_recomputation({}, static_cast<std::size_t>(config.model.n_layers)));
  bool const better = !fits(plan) || recomputing.split.microbatch > plan.split.microbatch;
  return fits(recomputing) && better ? recomputing : plan;
}

template <class T>
std::vector<train::step_plan> step_plans_of(train_config const& config, run_plan const& plan,
                                            bool one_queue) {
  model<T> net(config.model, planned_groups(config), plan.recompute);
  auto const groups = groups_of(config, net);
  auto options = stepper_options_of(config, plan);
  options.one_queue = one_queue;
  train::step_plans plans(options, train::place_in(plan.layout, level_of(config)), 0,
                          config.parallelism.pipeline, net.num_blocks());
  net.visit_units([&](std::string const& name, auto& layer, std::vector<train::part> const& parts,
                      std::vector<parallel::parameter_base<T>*> const& uses) {
    plans.template add<T>(name, layer, parts, uses, groups.optimizers, groups.key_of);
  });
  auto const wanted = static_cast<int>(plan.split.accumulation);
  auto out = plans.plans_of_all_ranks(plans.stages().least_microbatches(wanted),
                                      parallel::pass::training, true);
  train::require_runs(out, one_queue);
  return out;
}

}  // namespace mpt
