// step_plans: the plans of a rank's steps (step_plan.hpp). A plan is made, together with those of
// all other ranks of the pipeline, and proved when a step of its shape first runs.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/train/setup/stages.hpp>
#include <parallel/train/step/lower_step.hpp>
#include <parallel/train/step/one_queue.hpp>
#include <parallel/train/step/verify_step.hpp>
#include <parallel/train/stepper_options.hpp>
#include <parallel/unit/unit.hpp>
#include <parallel/zero/update.hpp>

namespace parallel::train {

/// The choices that the options of a stepper make for its plans.
[[nodiscard]] inline step_choices choices_of(stepper_options const& options) {
  return {.bucket_bytes = options.bucket_bytes,
          .reshard_after_forward = options.reshard_after_forward,
          .canonical_tree = options.order == zero::reduction_order::canonical_tree,
          .overlap_weights = options.pipeline.overlap_weight_gradients};
}

/// The description, in a plan, of the uses of a unit in these parts, which the rank at `place`
/// holds with these options.
template <class T>
[[nodiscard]] planned_unit describe_unit(unit<T> const& layout, std::vector<part> parts,
                                         stepper_options const& options,
                                         zero::unit_position const& place,
                                         bool exchanges_update = false) {
  bool const values = zero::shards_parameters(options.level, place);
  bool const gradients =
      zero::shards_gradients(options.level, place, options.order, options.reduce_every_microbatch);
  index const trained = layout.trainable_size();
  bool const joined = parts.size() > 1 && options.order == zero::reduction_order::by_rank;
  return {.name = layout.name(),
          .parts = std::move(parts),
          .values = values ? layout.size() : 0,
          .gradients = gradients ? trained : 0,
          .gradient_bytes = static_cast<std::size_t>(trained) * sizeof(accumulate_t<T>),
          .is_gathered = place.shards > 1 && !values && trained > 0,
          .is_joined = joined,
          .exchanges_update = exchanges_update,
          .expert_ranks = layout.expert_ranks()};
}

class step_plans {
 public:
  /// The plans of rank `rank` of `ranks` along the pipeline; `place`: its position among the ranks
  /// that hold the same units.
  step_plans(stepper_options const& options, zero::unit_position place, int rank, int ranks,
             std::size_t blocks)
      : options_(options), place_(place), rank_(rank), units_(static_cast<std::size_t>(ranks)) {
    for (int r = 0; r < ranks; ++r) stages_.emplace_back(options.pipeline, r, ranks, blocks);
  }

  /// Adds a unit of the model, as Model::visit_units shows it; `optimizers` by group, `key_of` as
  /// in optimizer_groups.
  template <class T, class Layer, class Optimizers, class KeyOf>
  void add(std::string const& name, Layer& layer, std::vector<part> const& parts,
           std::vector<parameter_base<T>*> const& uses, Optimizers const& optimizers,
           KeyOf const& key_of) {
    for (std::size_t r = 0; r < stages_.size(); ++r)
      with_held_part<T>(stages_[r], name, layer, parts, uses,
                        [&](std::string const&, auto& held, auto const& held_uses,
                            std::vector<part> held_parts, bool) {
                          auto const place = place_.among_experts(unit<T>::expert_ranks_of(held));
                          unit<T> layout(name, held, place.data_ranks(), key_of);
                          layout.add_uses(held_parts.size(), held_uses);
                          auto& added = units_[r].emplace_back(describe_unit(
                              layout, std::move(held_parts), options_, place,
                              zero::exchanges_update(layout, place, std::span(optimizers))));
                          added.number = number_;
                          added.is_tied = stages_[r].ties(parts);
                        });
    ++number_;
  }

  /// The name of the unit with this planned_unit::number, whichever rank holds it.
  [[nodiscard]] std::string name_of_unit(int number) const {
    for (auto const& units_of_rank : units_)
      for (auto const& unit : units_of_rank)
        if (unit.number == number) return unit.name;
    fail("the model has no unit ", number);
  }

  /// The units of the model that this rank holds, fully or in part.
  [[nodiscard]] std::vector<planned_unit> const& units() const { return units_[own_index()]; }
  [[nodiscard]] stages_of_rank& stages() { return stages_[own_index()]; }
  [[nodiscard]] stages_of_rank const& stages() const { return stages_[own_index()]; }

  /// The plans of all ranks of the pipeline, not proved. `stale`: the previous step has left it to
  /// this one to gather what it updated.
  [[nodiscard]] std::vector<step_plan> plans_of_all_ranks(int microbatches, pass mode,
                                                          bool stale = false) {
    auto choices = choices_of(options_);
    choices.mode = mode;
    if (options_.gather_before_use)
      choices.gathers = stale ? gather_time::before_use : gather_time::none;
    std::vector<step_plan> out;
    for (std::size_t r = 0; r < stages_.size(); ++r)
      out.push_back(lower_step(stages_[r].plan_of(microbatches, mode), stages_[r].ranges(),
                               units_[r], choices));
    if (options_.one_queue.value_or(false)) order_for_one_queue(out);
    return out;
  }

  [[nodiscard]] bool is_proved(int microbatches, pass mode, bool stale = false) const {
    return plans_.contains({microbatches, mode, stale});
  }

  /// The plan of this rank. Throws what the schedule refuses, and when the plans cannot run.
  [[nodiscard]] step_plan const& plan_for(int microbatches, pass mode, bool stale = false) {
    std::tuple const key(microbatches, mode, stale);
    auto const known = plans_.find(key);
    if (known != plans_.end()) return known->second;
    auto plans = plans_of_all_ranks(microbatches, mode, stale);
    require_runs(plans, options_.one_queue.value_or(false));
    return plans_.emplace(key, std::move(plans[own_index()])).first->second;
  }

 private:
  [[nodiscard]] std::size_t own_index() const { return static_cast<std::size_t>(rank_); }

  stepper_options options_;
  zero::unit_position place_;
  int rank_;
  int number_ = 0;
  std::vector<stages_of_rank> stages_;            // by rank
  std::vector<std::vector<planned_unit>> units_;  // by rank
  std::map<std::tuple<int, pass, bool>, step_plan> plans_;
};

}  // namespace parallel::train
