// step_plans: the plans of a rank's steps (step_plan.hpp), each made, with those of all other ranks
// of the pipeline, and proved when a step of its shape first runs.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <parallel/ops/elementwise.hpp>
#include <parallel/train/lower_step.hpp>
#include <parallel/train/stages.hpp>
#include <parallel/train/stepper_options.hpp>
#include <parallel/train/verify_step.hpp>
#include <parallel/unit/unit.hpp>

namespace parallel::train {

/// What the options of a stepper say to its plans.
[[nodiscard]] inline step_choices choices_of(stepper_options const& options) {
  return {.bucket_bytes = options.bucket_bytes,
          .reshard_after_forward = options.reshard_after_forward,
          .canonical_tree = options.order == zero::reduction_order::canonical_tree,
          .overlap_weights = options.pipeline.weights_beside};
}

/// What a plan knows of the uses of a unit in these parts, at a place of a ZeRO level.
template <class T>
[[nodiscard]] planned_unit describe_unit(unit<T> const& layout, std::vector<part> parts,
                                         zero::stage stage, zero::unit_place const& place,
                                         zero::reduction_order order) {
  bool const values = zero::divides_values(stage, place);
  index const trained = layout.trainable_size();
  return {.name = layout.name(),
          .parts = std::move(parts),
          .values = values ? layout.size() : 0,
          .gradients = zero::divides_gradients(stage, place, order) ? trained : 0,
          .gradient_bytes = static_cast<std::size_t>(trained) * sizeof(accumulate_t<T>),
          .gathered = place.shards > 1 && !values && trained > 0};
}

class step_plans {
 public:
  /// Of rank `rank` of `ranks` along the pipeline; `place`: where it stands among those that hold
  /// the same units.
  step_plans(stepper_options const& options, zero::unit_place place, int rank, int ranks,
             std::size_t blocks)
      : choices_(choices_of(options)),
        stage_(options.stage),
        order_(options.order),
        place_(place),
        rank_(rank),
        units_(static_cast<std::size_t>(ranks)) {
    for (int r = 0; r < ranks; ++r) stages_.emplace_back(options.pipeline, r, ranks, blocks);
  }

  /// Every unit of the model, as Model::visit_units shows it; `key_of` as in optimizer_groups.
  template <class T, class Layer, class KeyOf>
  void add(std::string const& name, Layer& layer, std::vector<part> const& parts,
           std::vector<parameter_base<T>*> const& uses, KeyOf const& key_of) {
    for (std::size_t r = 0; r < stages_.size(); ++r)
      with_held_part<T>(stages_[r], name, layer, parts, uses,
                        [&](std::string const&, auto& held, auto const& held_uses,
                            std::vector<part> held_parts, bool) {
                          unit<T> layout(name, held, place_.data_ranks(), key_of);
                          for (auto* const use : held_uses) layout.add_use(*use);
                          auto& made = units_[r].emplace_back(
                              describe_unit(layout, std::move(held_parts), stage_, place_, order_));
                          made.number = number_;
                          made.tied = stages_[r].ties(parts);
                        });
    ++number_;
  }

  /// Of this rank, all of the model's that it holds.
  [[nodiscard]] std::vector<planned_unit> const& units() const { return units_[own()]; }
  [[nodiscard]] step_choices const& choices() const { return choices_; }
  [[nodiscard]] stages_of_rank& stages() { return stages_[own()]; }
  [[nodiscard]] stages_of_rank const& stages() const { return stages_[own()]; }

  /// Of all ranks of the pipeline, not proved.
  [[nodiscard]] std::vector<step_plan> all(int microbatches, pass mode) {
    auto choices = choices_;
    choices.mode = mode;
    std::vector<step_plan> out;
    for (std::size_t r = 0; r < stages_.size(); ++r)
      out.push_back(lower_step(stages_[r].plan_of(microbatches, mode), stages_[r].ranges(),
                               units_[r], choices));
    return out;
  }

  [[nodiscard]] bool is_proved(int microbatches, pass mode) const {
    return plans_.contains({microbatches, mode});
  }

  /// Of this rank. Throws what the schedule refuses, and when the plans cannot run.
  [[nodiscard]] step_plan const& of(int microbatches, pass mode) {
    auto const known = plans_.find({microbatches, mode});
    if (known != plans_.end()) return known->second;
    auto plans = all(microbatches, mode);
    require_runs(plans);
    return plans_.emplace(std::pair{microbatches, mode}, std::move(plans[own()])).first->second;
  }

 private:
  [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(rank_); }

  step_choices choices_;
  zero::stage stage_;
  zero::reduction_order order_;
  zero::unit_place place_;
  int rank_;
  int number_ = 0;
  std::vector<stages_of_rank> stages_;            // by rank
  std::vector<std::vector<planned_unit>> units_;  // by rank
  std::map<std::pair<int, pass>, step_plan> plans_;
};

}  // namespace parallel::train
