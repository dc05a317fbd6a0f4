// step_plans: what print_plan=true shows: everything that each rank of a run's pipeline enqueues in
// a step, proved.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <mpt/train/plan.hpp>
#include <parallel/train/show_step.hpp>
#include <parallel/train/step_plans.hpp>

namespace mpt {

/// How a run's stepper composes its steps.
[[nodiscard]] inline train::stepper_options stepper_options_of(train_config const& config) {
  return {.stage = stage_of(config),
          .bucket_bytes = static_cast<std::size_t>(config.bucket_bytes),
          .reshard_after_forward = config.reshard_after_forward,
          .clip = config.clip,
          .optimizer_memory = optimizer_memory_of(config),
          .pipeline = config.parallelism.pipeline_options()};
}

/// The lists of a step of a run of T as planned, by pipeline rank. Throws when they cannot run.
template <class T>
[[nodiscard]] std::vector<train::step_plan> step_plans_of(train_config const& config,
                                                          run_plan const& plan) {
  model<T> net(config.model, planned_groups(config), config.recompute);
  auto const groups = groups_of(config, net);
  train::step_plans made(stepper_options_of(config),
                         {.shards = plan.layout.template degree<axis::shard>(),
                          .replicas = plan.layout.template size<axis::replicate, axis::context>()},
                         0, config.parallelism.pipeline, net.num_blocks());
  net.visit_units([&](std::string const& name, auto& layer, std::vector<train::part> const& parts,
                      std::vector<parallel::parameter_base<T>*> const& uses) {
    made.template add<T>(name, layer, parts, uses, groups.key_of);
  });
  auto const wanted = static_cast<int>(plan.split.accumulation);
  auto out = made.all(made.stages().least_microbatches(wanted), parallel::pass::training);
  train::require_runs(out);
  return out;
}

/// Their text, one after another.
[[nodiscard]] inline std::string describe_step(std::vector<train::step_plan> const& plans) {
  std::string out;
  for (auto const& one : plans) out += train::text_of(one) + '\n';
  for (auto const& one : plans) {
    auto const kept = train::residency_of(one);
    out += fmt::format(
        "pipeline rank {}: {} elements unsharded at most, {} of gradients of single "
        "microbatches, {} exchanges at once\n",
        one.rank, kept.values, kept.gradients, train::exchanges_at_once(one));
  }
  return out;
}

}  // namespace mpt
