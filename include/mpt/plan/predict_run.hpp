// predict_run: the time of a training step on a cluster, simulated from the plans of the step that
// the run itself would execute.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/model/model.hpp>
#include <mpt/model/sequences.hpp>
#include <mpt/train/report/expected_step.hpp>
#include <mpt/train/report/metrics.hpp>
#include <mpt/train/setup/parameter_groups.hpp>
#include <mpt/train/setup/plan_run.hpp>
#include <mpt/train/setup/run_plan.hpp>
#include <parallel/cluster/cluster.hpp>
#include <parallel/predict/fp8_products.hpp>
#include <parallel/predict/step_costs.hpp>
#include <parallel/predict/step_split.hpp>

namespace mpt {

namespace cluster = parallel::cluster;
namespace predict = parallel::predict;

/// A step as it is expected to run.
struct prediction {
  double seconds = 0;            ///< of a step
  double tokens_per_second = 0;  ///< of all ranks
  double utilisation = 0;        ///< MFU as metrics.hpp defines it
  int busiest_rank = 0;          ///< the pipeline rank that computes the longest
  predict::step_split split{};   ///< of that rank
  double exchange_seconds = 0;  ///< of that rank's exchanges of values and gradients, hidden or not
  std::size_t operations = 0;   ///< that that rank's passes compute
  cluster::link_bytes sent{};   ///< by that rank
  /// Seconds for which that rank waits for exchanges: "tensor", "context", "values", "gradients"
  /// and "pipeline"
  std::map<std::string, double> waits{};
  /// Seconds of that rank's passes, by operation
  std::map<std::string, double> by_operation{};
};

/// A step of all ranks of a pipeline in time.
struct simulated_run {
  std::vector<train::step_plan> plans;  ///< by pipeline rank
  predict::pass_times passes;
  predict::simulated_step times;
  std::vector<cluster::link_bytes> sent;  ///< by pipeline rank
};

/// Simulates a step of a planned run. `T`: the elements of the model; it must be those of the plan.
template <class T>
[[nodiscard]] simulated_run simulate_run(train_config const& config, run_plan const& plan,
                                         cluster::cluster const& machines);

/// Simulates a round of evaluation of a planned run: a batch of device_eval_batch_size sequences of
/// every data rank, for every rank of the pipeline. `loader`: the set's. `T`: as in simulate_run.
template <class T>
[[nodiscard]] simulated_run simulate_evaluation(train_config const& config, run_plan const& plan,
                                                loader_config const& loader,
                                                cluster::cluster const& machines);

/// Predicts the steps of a planned run. `T`: the elements of the model; it must be those of the
/// plan.
template <class T>
[[nodiscard]] prediction predict_run(train_config const& config, run_plan const& plan,
                                     cluster::cluster const& machines);

/// The seconds of a simulated step on one rank of the pipeline.
[[nodiscard]] step_seconds step_of_rank(simulated_run const& run, std::size_t rank);

namespace detail {

/// Marks the parameters that a run does not train: no pass computes their gradients.
template <class Model>
void freeze_parameters(optimizer_config const& optimizer, Model& net) {
  auto const groups = groups_of(optimizer, net);
  net.visit_units([&](std::string const&, auto& layer, auto const&, auto const&) {
    layer.visit_parameters(
        [&](auto& parameter) { parameter.trainable = groups.key_of(parameter.name).trainable; });
  });
}

/// The sequences of one pass, and what it is for.
struct pass_shape {
  index sequences = 0;
  index length = 0;  ///< of whole sequences
  pass mode = pass::training;
};
/// The passes of a step of training.
[[nodiscard]] inline pass_shape shape_of_step(train_config const& config, run_plan const& plan) {
  return {plan.split.microbatch, config.data.train_loader.max_seq_len};
}

/// The work of all passes of the stages of a pipeline, as a program computes them.
template <class T>
[[nodiscard]] predict::work_by_pass work_of_passes(train_config const& config, run_plan const& plan,
                                                   pass_shape const& shape,
                                                   cluster::program_costs const& program = {}) {
  auto const& parallelism = config.execution.parallelism;
  auto in_passes = parallelism;
  in_passes.sequence_parallel &= program.overlaps_regions;
  model<T> net(config.model, planned_groups(in_passes), plan.recompute);
  freeze_parameters(config.optimizer, net);
  auto const batch = sequences::shape_of(shape.sequences, shape.length / parallelism.context);
  predict::work_by_pass out;
  for (int rank = 0; rank < parallelism.pipeline; ++rank) {
    auto const stages = stages_of(config.model, parallelism, rank);
    for (auto const& range : stages.ranges()) predict::add_work(out, net, range, batch, shape.mode);
  }
  return out;
}

/// The times of passes of a model with so many blocks.
[[nodiscard]] inline predict::pass_times times_of(predict::work_by_pass const& work, index blocks,
                                                  cluster::cluster const& machines,
                                                  predict::axis_places const& places) {
  predict::pass_times out;
  auto const is_in_fp8 = [&](train::part part) {
    return machines.program.has_fp8_blocks && part != train::embed &&
           part < static_cast<train::part>(blocks);
  };
  for (auto const& [key, items] : work)
    out.emplace(key, time_of(is_in_fp8(key.second) ? predict::with_fp8_products(items) : items,
                             machines, places));
  return out;
}

template <class T>
[[nodiscard]] predict::step_sizes sizes_of(train_config const& config, run_plan const& plan,
                                           pass_shape const& shape) {
  auto const& parallelism = config.execution.parallelism;
  double const rows = static_cast<double>(shape.sequences) * static_cast<double>(shape.length) /
                      parallelism.context /
                      (parallelism.sequence_parallel ? parallelism.tensor : 1);
  return {.place = train::place_in(plan.layout, level_of(config.execution)),
          .value_bytes = sizeof(T),
          .gradient_bytes = sizeof(parallel::accumulate_t<T>),
          .sent_bytes = config.execution.reduce_dtype == parallel::zero::reduce_dtype::bf16
                            ? 2
                            : static_cast<double>(sizeof(parallel::accumulate_t<T>)),
          .boundary_bytes = rows * static_cast<double>(config.model.d_model) * sizeof(T)};
}

/// What a rank sends in a step.
[[nodiscard]] cluster::link_bytes bytes_sent(train::step_plan const& plan,
                                             predict::step_costs const& costs,
                                             predict::pass_times const& passes);

/// Simulates a step, or a round of evaluation, whose passes have this shape.
template <class T>
[[nodiscard]] simulated_run simulate(train_config const& config, run_plan const& plan,
                                     pass_shape const& shape, cluster::cluster const& machines) {
  predict::axis_places const places(machines, plan.layout);
  simulated_run out{.plans = step_plans_of<T>(config.model, config.optimizer, config.execution,
                                              config.run, plan, false, shape.mode),
                    .passes = times_of(work_of_passes<T>(config, plan, shape, machines.program),
                                       config.model.n_layers, machines, places),
                    .times = {},
                    .sent = {}};
  auto const sizes = sizes_of<T>(config, plan, shape);
  std::vector<predict::step_costs> costs;
  for (std::size_t rank = 0; rank < out.plans.size(); ++rank)
    costs.emplace_back(machines, places, sizes, out.plans[rank], plan.by_pipeline_rank[rank],
                       out.passes);
  out.times = predict::simulate_step(
      out.plans, [&](std::size_t rank, train::action const& a) { return costs[rank](a); });
  for (std::size_t rank = 0; rank < out.plans.size(); ++rank)
    out.sent.push_back(bytes_sent(out.plans[rank], costs[rank], out.passes));
  return out;
}

/// Seconds, split and operations of a simulated step, of the rank that computes the longest.
[[nodiscard]] prediction summary_of(simulated_run const& run);

}  // namespace detail

template <class T>
simulated_run simulate_run(train_config const& config, run_plan const& plan,
                           cluster::cluster const& machines) {
  return detail::simulate<T>(config, plan, detail::shape_of_step(config, plan), machines);
}

template <class T>
simulated_run simulate_evaluation(train_config const& config, run_plan const& plan,
                                  loader_config const& loader, cluster::cluster const& machines) {
  return detail::simulate<T>(
      config, plan, {config.evaluation.device_eval_batch_size, loader.max_seq_len, pass::inference},
      machines);
}

template <class T>
prediction predict_run(train_config const& config, run_plan const& plan,
                       cluster::cluster const& machines) {
  auto out = detail::summary_of(simulate_run<T>(config, plan, machines));
  out.seconds += machines.program.exposed_exchanges * out.exchange_seconds;
  out.tokens_per_second = static_cast<double>(config.data.global_train_batch_size) *
                          static_cast<double>(config.data.train_loader.max_seq_len) / out.seconds;
  double const peak = machines.device.peak * plan.layout.ranks();
  out.utilisation =
      utilisation_of(config.model, config.data, plan, peak).mfu(out.tokens_per_second);
  return out;
}

}  // namespace mpt
