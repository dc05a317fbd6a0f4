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

/// Plans a run of T whose blocks recompute given activations: one method a decision, in the order
/// of `plan`, as each decision uses the memory that those before it have left.
template <class T>
class run_planner {
 public:
  /// `available` and `host` as in plan_run. `config` must outlive the planner.
  run_planner(train_config const& config, int ranks, std::size_t available,
              std::optional<std::size_t> host, block_recomputation recompute)
      : config_(config),
        host_(host),
        plan_{.layout = run_layout(config, ranks),
              .available = available,
              .is_microbatch_automatic = !config.data.device_train_microbatch_size,
              .recompute = std::move(recompute),
              .reshard_after_forward = config.execution.reshard_after_forward.value_or(true),
              .reduce_every_microbatch = config.execution.reduce_every_microbatch.value_or(true)},
        net_(config.model, planned_groups(config.execution.parallelism), plan_.recompute),
        groups_(groups_of(config.optimizer, net_)) {
    auto const& parallelism = config.execution.parallelism;
    for (int p = 0; p < parallelism.pipeline; ++p)
      stages_.push_back(stages_of(config.model, parallelism, p));
    plan_.by_pipeline_rank.resize(stages_.size());
  }

  [[nodiscard]] run_plan plan() && {
    plan_units();
    spare_exchanges(0, true);
    choose_microbatch();
    auto const microbatches =
        stages_.front().least_microbatches(static_cast<int>(plan_.split.accumulation));
    spare_exchanges(plan_.available == 0 ? std::size_t(-1) : plan_.available, microbatches > 1);
    choose_background_saves();  // last, so that copies never shrink the microbatch
    count_operations();
    measure_microbatch();
    return std::move(plan_);
  }

 private:
  /// Plans the memory of units: values, gradients, states and buffers.
  void plan_units() {
    auto const& execution = config_.execution;
    std::int64_t const leaves =
        is_canonical(execution)
            ? split_batch(config_.data, execution, data_ranks(plan_.layout)).accumulation
            : 0;
    for (std::size_t p = 0; p < stages_.size(); ++p) {
      auto const previous = plan_.by_pipeline_rank[p];
      plan_.by_pipeline_rank[p] = train::plan_units(net_, groups_, stages_[p], place(), options(),
                                                    static_cast<std::size_t>(leaves));
      plan_.by_pipeline_rank[p].activations = previous.activations;
      plan_.by_pipeline_rank[p].scratch = previous.scratch;
    }
    update_maximum();
  }

  /// Saves exchanges where the configuration leaves the choice open and `memory` bytes allow it.
  void spare_exchanges(std::size_t memory, bool several_microbatches) {
    if (place().shards == 1) return;
    auto const plan_units_with = [&](train::stepper_options const& candidate) {
      plan_.reshard_after_forward = candidate.reshard_after_forward;
      plan_.reduce_every_microbatch = candidate.reduce_every_microbatch;
      plan_units();
      return plan_.memory.total();
    };
    auto chosen = options();
    train::spare_exchanges(chosen, memory, plan_units_with,
                           {!config_.execution.reshard_after_forward,
                            several_microbatches && !config_.execution.reduce_every_microbatch});
    plan_units_with(chosen);
  }

  /// Chooses the largest microbatch that fits, by halving from the rank's whole batch.
  void choose_microbatch() {
    split_by(config_.data.global_train_batch_size);
    while (plan_.is_microbatch_automatic && plan_.split.microbatch > 1 && !fits(plan_))
      split_by(plan_.split.microbatch / 2);
  }

  void split_by(index microbatch) {
    plan_.split =
        split_batch(config_.data, config_.execution, data_ranks(plan_.layout), microbatch);
    for (std::size_t p = 0; p < stages_.size(); ++p) {
      auto const passes = plan_passes(stages_[p]);
      plan_.by_pipeline_rank[p].activations = passes.activations;
      if (host_)  // an update needs less scratch than matrix products
        plan_.by_pipeline_rank[p].scratch = passes.scratch;
    }
    update_maximum();
  }

  /// Plans the memory of the forward and backward passes of one pipeline rank.
  [[nodiscard]] train::pass_memory_plan plan_passes(train::stages_of_rank& stages) const {
    auto const& parallelism = config_.execution.parallelism;
    index const context = parallelism.context;
    auto const& split = plan_.split;
    train::pass_memory_plan largest;
    auto const cover = [&](std::size_t microbatches, std::span<microbatch const> batches,
                           pass mode) {
      auto const planned = train::plan_passes(net_, stages, microbatches, batches, mode,
                                              {.deterministic = config_.execution.deterministic});
      largest.cover(planned);
      return planned.activations;
    };
    auto const count =
        static_cast<std::size_t>(stages.least_microbatches(static_cast<int>(split.accumulation)));
    // shorter rows are planned too: they may need more, as smaller batches may
    for (auto const length : row_lengths(config_.data, parallelism)) {
      std::vector sizes{sequences::shape_of(split.microbatch, length / context)};
      for (auto const rest : split.remainders)
        sizes.push_back(sequences::shape_of(rest, length / context));
      cover(count, sizes, pass::training);
    }
    auto const pipeline = static_cast<std::size_t>(parallelism.pipeline);
    for (auto const& loader : config_.data.eval_loaders) {
      // the last batch may have any size; a smaller one may need more, as its logits make fewer
      // chunks
      std::vector<microbatch> batch_sizes;
      for (index n = 1; n <= config_.evaluation.device_eval_batch_size; ++n)
        batch_sizes.push_back(sequences::shape_of(n, loader.max_seq_len / context));
      if (pipeline > 1)
        cover(pipeline, batch_sizes, pass::inference);
      else
        for (auto const& batch : batch_sizes) cover(1, {&batch, 1}, pass::inference);
    }
    auto const decode = [&](microbatch const& batch) {
      return cover(pipeline, {&batch, 1}, pass::inference);
    };
    for (auto const& room : decoder_rooms(config_.model, config_.evaluation, config_.callbacks))
      largest.cover(
          {.activations = decoder_bytes(net_, room, stages.ranges(), decode), .scratch = {}});
    return largest;
  }

  /// Decides whether checkpoints are written from a copy, while training goes on.
  void choose_background_saves() {
    for (auto const& rank : plan_.by_pipeline_rank) {
      std::size_t const room = host_.value_or(plan_.available);
      std::size_t const used = host_ ? rank.offloaded : rank.total();
      if (room > 0 && used + bytes_to_save(config_.checkpoint, rank) > room)
        plan_.saves_in_background = false;
    }
  }

  void count_operations() {
    auto const shape =
        sequences::shape_of(plan_.split.microbatch, config_.data.train_loader.max_seq_len /
                                                        config_.execution.parallelism.context);
    for (std::size_t p = 0; p < stages_.size(); ++p)
      for (auto const& [name, count] : train::count_operations(net_, shape, stages_[p].ranges()))
        plan_.by_pipeline_rank[p].operations += count;
    plan_.memory.operations =
        std::ranges::max_element(plan_.by_pipeline_rank, {}, &train::memory_plan::operations)
            ->operations;
  }

  /// Plans one microbatch through the whole model, with and without recomputation.
  void measure_microbatch() {
    auto const shape =
        sequences::shape_of(plan_.split.microbatch, config_.data.train_loader.max_seq_len);
    plan_.microbatch = plan_.without_recomputation =
        train::plan_microbatch(model<T>(config_.model, {}, plan_.recompute), shape);
    if (!plan_.recompute.empty())
      plan_.without_recomputation = train::plan_microbatch(model<T>(config_.model), shape);
  }

  void update_maximum() {
    plan_.memory =
        *std::ranges::max_element(plan_.by_pipeline_rank, {}, &train::memory_plan::total);
  }

  [[nodiscard]] auto place() const {
    return train::place_in(plan_.layout, level_of(config_.execution));
  }
  [[nodiscard]] train::stepper_options options() const {
    return stepper_options_of(config_.optimizer, config_.execution, config_.run, plan_);
  }

  train_config const& config_;
  std::optional<std::size_t> host_;
  run_plan plan_;
  model<T> net_;
  train::optimizer_groups<run_optimizer> groups_;
  std::vector<train::stages_of_rank> stages_;
};

/// Whether a microbatch of twice as many rows would pay for recomputing cheap activations.
/// Recomputation moves 24 d bytes a row and block through memory in bf16 (two norms, and an
/// activation function of width 4 d); gradients of 12 d^2 parameters a block move 96 d^2 bytes a
/// microbatch, of n rows: half as often saves 48 d^2 / n bytes a row, which is more below n = 2 d.
[[nodiscard]] bool recomputation_pays(model_config const& model, data_config const& data,
                                      execution_config const& execution, run_plan const& plan);

}  // namespace detail

template <class T>
run_plan plan_run(train_config const& config, int ranks, std::size_t available,
                  std::optional<std::size_t> host) {
  auto const plan_with = [&](block_recomputation recompute) {
    return detail::run_planner<T>(config, ranks, available, host, std::move(recompute)).plan();
  };
  auto plan = plan_with(config.execution.recompute.value_or(block_recomputation()));
  if (config.execution.recompute ||
      (fits(plan) &&
       !detail::recomputation_pays(config.model, config.data, config.execution, plan)))
    return plan;
  auto recomputing =
      plan_with(with_cheap_recomputation({}, static_cast<std::size_t>(config.model.n_layers)));
  bool const better = !fits(plan) || recomputing.split.microbatch > plan.split.microbatch;
  return fits(recomputing) && better ? recomputing : plan;
}

template <class T>
std::vector<train::step_plan> step_plans_of(model_config const& model,
                                            optimizer_config const& optimizer,
                                            execution_config const& execution,
                                            run_config const& run, run_plan const& plan,
                                            bool one_queue, pass mode) {
  mpt::model<T> net(model, planned_groups(execution.parallelism), plan.recompute);
  auto const groups = groups_of(optimizer, net);
  auto options = stepper_options_of(optimizer, execution, run, plan);
  options.one_queue = one_queue;
  train::step_plans plans(options, train::place_in(plan.layout, level_of(execution)), 0,
                          execution.parallelism.pipeline, net.num_blocks());
  net.visit_units([&](std::string const& name, auto& layer, std::vector<train::part> const& parts,
                      std::vector<parallel::parameter_base<T>*> const& uses) {
    plans.template add<T>(name, layer, parts, uses, groups.optimizers, groups.key_of);
  });
  bool const trains = mode == pass::training;
  auto const wanted = static_cast<int>(plan.split.accumulation);
  int const microbatches =
      trains ? plans.stages().least_microbatches(wanted) : execution.parallelism.pipeline;
  auto out = plans.plans_of_all_ranks(microbatches, mode, trains);
  train::require_runs(out, one_queue);
  return out;
}

}  // namespace mpt
