// stages_of_rank: the parts of a model that a pipeline rank holds, and its pipeline plans of steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <parallel/core/parameter.hpp>
#include <parallel/pipeline/assign.hpp>
#include <parallel/pipeline/plan.hpp>
#include <parallel/pipeline/schedules.hpp>
#include <parallel/train/pipeline_options.hpp>
#include <parallel/train/setup/stage.hpp>

namespace parallel::train {

/// Gives a bare parameter visit_parameters.
template <class T>
struct lone_parameter {
  parameter_base<T>* parameter;
  void visit_parameters(auto&& visit) { visit(*parameter); }
};

class stages_of_rank {
 public:
  /// Rank `rank` of `ranks` along the pipeline axis. Throws when the model has too few blocks.
  stages_of_rank(pipeline_options options, int rank, int ranks, std::size_t blocks)
      : options_(std::move(options)), rank_(rank), ranks_(ranks) {
    // every schedule can be made for 2 * ranks microbatches; only its number of stages matters here
    auto const any =
        pipeline::make_schedule(options_.schedule, ranks, 2 * ranks, options_.stages_per_rank);
    require(options_.stages_per_rank == 1 || options_.stages_per_rank == any.stages_per_rank,
            "pipeline_options::stages_per_rank is ", options_.stages_per_rank,
            ", but the schedule ", options_.schedule, " has ", any.stages_per_rank,
            "; leave it out, or take the schedule interleaved");
    if (any.stages() == 1) {
      assigned_ = {{0, static_cast<int>(blocks), true, true}};
    } else {
      assigned_ = pipeline::assign_blocks(any, static_cast<int>(blocks), options_.blocks);
    }
    for (int chunk = 0; chunk < any.stages_per_rank; ++chunk) {
      auto const& s = assigned_[static_cast<std::size_t>(any.stage_of(rank, chunk))];
      ranges_.push_back({s.begin, s.end, s.entry, s.exit});
    }
    for (std::size_t s = 0; s < assigned_.size(); ++s)
      owners_.push_back(any.rank_of(static_cast<int>(s)));
  }

  /// The ranges of this rank's chunks.
  [[nodiscard]] std::vector<stage_range> const& ranges() const { return ranges_; }

  /// Whether this rank holds a part.
  [[nodiscard]] bool holds(part p) const {
    return std::ranges::any_of(ranges_, [&](stage_range const& r) { return r.holds(p); });
  }

  /// The rank that holds a part.
  [[nodiscard]] int owner(part p) const {
    for (std::size_t s = 0; s < assigned_.size(); ++s)
      if (stage_range{assigned_[s].begin, assigned_[s].end, assigned_[s].entry, assigned_[s].exit}
              .holds(p))
        return owners_[s];
    fail("the pipeline has no stage for part ", p, " of the model");
  }

  /// Whether the parts are on different ranks.
  [[nodiscard]] bool ties(std::vector<part> const& parts) const {
    return std::ranges::any_of(parts, [&](part p) { return owner(p) != owner(parts.front()); });
  }

  /// pipeline_options::overlap_weight_gradients.
  [[nodiscard]] bool overlap_weight_gradients() const { return options_.overlap_weight_gradients; }

  /// The least number of microbatches that a step can have, `wanted` or more.
  [[nodiscard]] int least_microbatches(int wanted) const {
    return pipeline::least_microbatches(options_.schedule, ranks_, wanted);
  }

  /// This rank's plan of a step of this many microbatches. Throws when the schedule refuses them.
  [[nodiscard]] pipeline::plan const& plan_of(int microbatches, pass mode) {
    auto const known = plans_.find({microbatches, mode});
    if (known != plans_.end()) return known->second;
    auto const schedule = schedule_of(microbatches, mode);
    return plans_.emplace(std::pair{microbatches, mode}, pipeline::lower(schedule, rank_))
        .first->second;
  }

 private:
  [[nodiscard]] pipeline::schedule schedule_of(int microbatches, pass mode) const {
    auto schedule = pipeline::make_schedule(options_.schedule, ranks_,
                                            mode == pass::training ? microbatches : 2 * ranks_,
                                            options_.stages_per_rank);
    return mode == pass::training ? schedule : pipeline::forward_only(schedule, microbatches);
  }

  pipeline_options options_;
  int rank_;
  int ranks_;
  std::vector<pipeline::stage_blocks> assigned_;  // by stage
  std::vector<int> owners_;                       // ranks, by stage
  std::vector<stage_range> ranges_;               // of this rank
  std::map<std::pair<int, pass>, pipeline::plan> plans_;
};

/// Calls add(name, layer, uses, parts, is_primary) for what the stages of a rank hold of a unit
/// that Model::visit_units shows: those of its parts that the stages hold, if any, with the layer
/// that they share or those of the tied uses that they have. `is_primary`: the rank counts the
/// unit's elements, since it holds the first use.
template <class T, class Layer, class Add>
void with_held_part(stages_of_rank const& stages, std::string name, Layer& layer,
                    std::vector<part> const& parts, std::vector<parameter_base<T>*> const& uses,
                    Add&& add) {
  using uses_type = std::vector<parameter_base<T>*>;
  auto const is_held = [&](part p) { return stages.holds(p); };
  std::vector<part> held_parts;
  std::ranges::copy_if(parts, std::back_inserter(held_parts), is_held);
  if (held_parts.empty()) return;
  uses_type held_uses;
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (is_held(parts[i + 1])) held_uses.push_back(uses[i]);
  bool const is_primary = is_held(parts.front());
  if (is_primary || uses.empty()) {
    add(std::move(name), layer, held_uses, held_parts, is_primary);
  } else {
    lone_parameter<T> first{held_uses.front()};
    held_uses.erase(held_uses.begin());
    add(std::move(name), first, held_uses, held_parts, false);
  }
}

}  // namespace parallel::train
