// lower_step: makes the list of all actions of a rank (step_plan.hpp) from a pipeline's plan, the
// rank's units and the choices of a step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <parallel/train/step/step_plan.hpp>
#include <parallel/train/step/unit_buffers.hpp>

namespace parallel::train {

namespace detail {

class step_lowering {
 public:
  step_lowering(pipeline::plan const& tasks, std::vector<stage_range> const& stages,
                std::vector<planned_unit> const& units, step_choices const& choices)
      : tasks_(tasks),
        choices_(choices),
        buffers_(units, choices),
        is_gathered_(units.size(), false) {
    out_.ranks = tasks.ranks;
    out_.rank = tasks.rank;
    out_.microbatches = tasks.microbatches;
    out_.mode = choices.mode;
    out_.gathers = choices.gathers;
    out_.stages = stages;
    out_.memory = tasks.chunks;
    out_.tasks = tasks.tasks;
    out_.units = units;
    out_.values = buffers_.values.sizes();
    out_.gradients = buffers_.gradients.sizes();
    buffer_reshards_.assign(out_.values.size(), none);
    is_buffer_busy_.assign(out_.values.size(), false);
    buffer_reductions_.assign(out_.gradients.size(), none);
    for (auto const& s : tasks.steps) {
      if (s.kind == pipeline::step_kind::compute)
        for (auto const& pass : passes(s))
          if (reads_values(pass.kind)) reads_.push_back({pass.model_part});
      if (pipeline::is_message(s.kind) &&
          std::ranges::find(out_.links, link_of(s)) == out_.links.end())
        out_.links.push_back(link_of(s));
    }
    last_by_stream_.assign(out_.lanes(), none);
  }

  step_plan lower() {
    bool const trains = choices_.mode == pass::training;
    if (trains) for_each_trained([&](int unit) { add_unit_action(action_kind::prepare, unit); });
    begin_ = add({.kind = action_kind::begin});
    for (auto const& s : tasks_.steps) {
      if (s.kind == pipeline::step_kind::compute)
        add_passes(s);
      else
        add_edge(s);
      step_ends_.push_back(pipeline::is_message(s.kind) ? last() : last_computation_);
    }
    for (auto& [ranks, open] : buckets_)
      if (trains) flush(open);
    for (std::size_t stream = lane::messages; stream < last_by_stream_.size(); ++stream)
      await(last_by_stream_[stream]);
    if (trains) finish();
    add({.kind = action_kind::end});
    for (auto const& a : out_.actions)
      for (int const other : a.dependencies)
        out_.actions[static_cast<std::size_t>(other)].is_awaited = true;
    return std::move(out_);
  }

 private:
  static constexpr int none = -1;

  /// The values that one pass reads.
  struct read {
    part model_part = embed;
    /// The values' buffer; none: a buffer of their unit, or they are held whole.
    std::optional<int> buffer = {};
    int unsharded = none;  // the action that unshards or gathers the values
  };

  [[nodiscard]] int last() const { return static_cast<int>(out_.actions.size()) - 1; }

  /// Appends an action and returns its number. A computation also depends on the actions in
  /// pending_dependencies_. A dependency is left out if it follows from another dependency or from
  /// the order of the action's stream.
  int add(action a) {
    auto const stream = static_cast<std::size_t>(a.lane);
    if (a.lane == lane::compute) {
      a.dependencies.insert(a.dependencies.end(), pending_dependencies_.begin(),
                            pending_dependencies_.end());
      pending_dependencies_.clear();
      last_computation_ = last() + 1;
    }
    auto const lanes = out_.lanes();
    clocks_.resize(clocks_.size() + lanes, none);
    int* const clock = clocks_.data() + clocks_.size() - lanes;
    auto const join = [&](int other) {
      if (other == none) return;
      int const* const other_clock = clocks_.data() + static_cast<std::size_t>(other) * lanes;
      for (std::size_t i = 0; i < lanes; ++i) clock[i] = std::max(clock[i], other_clock[i]);
    };
    join(last_by_stream_[stream]);
    std::ranges::sort(a.dependencies, std::greater{});
    std::erase_if(a.dependencies, [&](int other) {
      if (other == none) return true;
      bool const is_implied = clock[out_.actions[static_cast<std::size_t>(other)].lane] >= other;
      join(other);
      return is_implied;
    });
    out_.actions.push_back(std::move(a));
    return clock[stream] = last_by_stream_[stream] = last();
  }
  int add_unit_action(action_kind kind, int unit, int stream = lane::compute,
                      std::vector<int> dependencies = {}) {
    return add(
        {.kind = kind, .lane = stream, .unit = unit, .dependencies = std::move(dependencies)});
  }
  /// Makes the next computation wait for an action of another stream.
  void await(int other) {
    if (other != none) pending_dependencies_.push_back(other);
  }

  [[nodiscard]] std::vector<part_pass> passes(pipeline::step const& s) const {
    return passes_of(out_.stages[out_.chunk_of(s.task)], s.computes, choices_.mode,
                     choices_.overlap_weights);
  }

  /// Calls f(unit) for each unit with trained parameters.
  template <class F>
  void for_each_trained(F&& f) {
    for (int unit = 0; unit < std::ssize(out_.units); ++unit)
      if (unit_at(unit).gradient_bytes > 0) f(unit);
  }
  /// Calls f(unit, use) for each use of a unit by a model part.
  template <class F>
  void for_each_use(part p, F&& f) {
    for (int unit = 0; unit < std::ssize(out_.units); ++unit)
      for (int use = 0; use < std::ssize(unit_at(unit).parts); ++use)
        if (unit_at(unit).parts[static_cast<std::size_t>(use)] == p) f(unit, use);
  }
  [[nodiscard]] planned_unit const& unit_at(int unit) const {
    return out_.units[static_cast<std::size_t>(unit)];
  }

  void add_edge(pipeline::step const& s) {
    std::vector<int> dependencies;
    for (int const other : s.dependencies)
      dependencies.push_back(step_ends_[static_cast<std::size_t>(other)]);
    action a{.kind = action_kind::edge, .edge = s.kind, .task = s.task};
    if (a.is_message()) {
      auto const found = std::ranges::find(out_.links, link_of(s));
      a.lane = lane::messages + static_cast<int>(found - out_.links.begin());
      dependencies.push_back(begin_);
    }
    a.dependencies = std::move(dependencies);
    add(std::move(a));
  }
  [[nodiscard]] static std::pair<int, bool> link_of(pipeline::step const& message) {
    return {message.peer, pipeline::sends(message.kind)};
  }

  void add_passes(pipeline::step const& s) {
    for (int const other : s.dependencies) await(step_ends_[static_cast<std::size_t>(other)]);
    for (auto const& pass : passes(s)) {
      bool const reads = reads_values(pass.kind);
      if (reads) unshard_until(next_read_ + static_cast<std::size_t>(choices_.prefetch));
      if (adds_gradients(pass.kind)) begin_gradients(s, pass.model_part);
      bool const runs_aside = pass.is_overlapped && pass.kind == pass_kind::backward_weight;
      if (pass.kind == pass_kind::join) await(last_weights_action_);
      if (reads) await(reads_[next_read_].unsharded);
      int const number = add({.kind = action_kind::pass,
                              .pass = pass.kind,
                              .first = s.first,
                              .is_overlapped = pass.is_overlapped,
                              .lane = runs_aside ? lane::weights : lane::compute,
                              .model_part = pass.model_part,
                              .task = s.task,
                              .buffer = reads ? reads_[next_read_].buffer : std::nullopt,
                              .dependencies = {runs_aside ? last_computation_ : none}});
      if (runs_aside) last_weights_action_ = number;
      if (reads) reshard();
      if (pass.kind == pass_kind::join || (adds_gradients(pass.kind) && !runs_aside))
        end_gradients(s, pass.model_part);
    }
  }

  /// Unshards the values of the reads up to number `last`, in their order. Stops early at a read
  /// whose buffer is still in use.
  void unshard_until(std::size_t last) {
    for (; next_unshard_ <= last && next_unshard_ < reads_.size(); ++next_unshard_) {
      auto& upcoming = reads_[next_unshard_];
      auto const next_buffer = buffers_.values.peek(upcoming.model_part);
      if (next_buffer && is_buffer_busy_[static_cast<std::size_t>(*next_buffer)]) break;
      for (int unit = 0; unit < std::ssize(out_.units); ++unit) {
        auto const number = static_cast<std::size_t>(unit);
        auto const own_buffer = buffers_.own_buffers[number];
        bool const is_stale =
            unit_at(unit).is_gathered && choices_.gathers == gather_time::before_use;
        if (!(own_buffer || is_stale) || is_gathered_[number] ||
            !unit_at(unit).is_used_by(upcoming.model_part))
          continue;
        upcoming.unsharded =
            own_buffer ? unshard(upcoming.model_part, unit, std::nullopt, *own_buffer, begin_)
                       : add_unit_action(action_kind::gather, unit, lane::gathers, {begin_});
        is_gathered_[number] = true;
      }
      upcoming.buffer = buffers_.values.take(upcoming.model_part);
      if (!upcoming.buffer) continue;
      auto const buffer = static_cast<std::size_t>(*upcoming.buffer);
      is_buffer_busy_[buffer] = true;
      for_each_use(upcoming.model_part, [&](int unit, int use) {
        if (unit_at(unit).values > 0)
          upcoming.unsharded =
              unshard(upcoming.model_part, unit, use, *upcoming.buffer, buffer_reshards_[buffer]);
      });
    }
  }
  /// `release`: the action after which the buffer is free; none: it is free from the beginning.
  int unshard(part p, int unit, std::optional<int> use, int buffer, int release) {
    return add({.kind = action_kind::unshard,
                .lane = lane::gathers,
                .model_part = p,
                .unit = unit,
                .use = use,
                .buffer = buffer,
                .dependencies = {release == none ? begin_ : release}});
  }
  /// Frees the buffer of the values that the pass added last reads.
  void reshard() {
    auto const& finished_read = reads_[next_read_++];
    if (!finished_read.buffer) return;
    auto const buffer = static_cast<std::size_t>(*finished_read.buffer);
    buffer_reshards_[buffer] = add({.kind = action_kind::reshard,
                                    .model_part = finished_read.model_part,
                                    .buffer = finished_read.buffer});
    is_buffer_busy_[buffer] = false;
  }

  void begin_gradients(pipeline::step const& s, part p) {
    auto const buffer = gradient_buffers_[p] = buffers_.gradients.take(p);
    if (buffer) await(buffer_reductions_[static_cast<std::size_t>(*buffer)]);
    if (buffer || choices_.canonical_tree)
      add_gradient_action(action_kind::begin_gradients, s, p, buffer);
  }
  void end_gradients(pipeline::step const& s, part p) {
    if (choices_.canonical_tree) add_gradient_action(action_kind::end_gradients, s, p);
    if (auto const buffer = gradient_buffers_[p])
      for_each_use(p, [&](int unit, int use) {
        if (unit_at(unit).gradients > 0)
          buffer_reductions_[static_cast<std::size_t>(*buffer)] =
              add_gradient_action(action_kind::reduce_scatter, s, p, buffer, unit, use);
      });
    if (s.last) complete(p);
  }
  int add_gradient_action(action_kind kind, pipeline::step const& s, part p,
                          std::optional<int> buffer = {}, std::optional<int> unit = {},
                          std::optional<int> use = {}) {
    bool const reduces = kind == action_kind::reduce_scatter;
    bool const joins_earlier =
        unit && unit_at(*unit).is_joined && !reduced_units_.insert(*unit).second;
    return add({.kind = kind,
                .first = s.first && !joins_earlier,
                .lane = reduces ? lane::reductions : lane::compute,
                .model_part = p,
                .task = s.task,
                .unit = unit,
                .use = use,
                .buffer = buffer,
                .dependencies = {reduces ? last_computation_ : none}});
  }

  /// Puts the complete gradients of a part's uses into the bucket, and starts the bucket when it is
  /// full. The uses of a joined unit have one gradient, which follows when all of them are
  /// complete.
  void complete(part p) {
    if (choices_.canonical_tree) add({.kind = action_kind::finish_tree, .model_part = p});
    for_each_use(p, [&](int unit, int use) {
      if (unit_at(unit).gradient_bytes == 0) return;
      bool const joined = unit_at(unit).is_joined;
      if (joined && ++complete_uses_[unit] < std::ssize(unit_at(unit).parts)) return;
      auto& open = buckets_[unit_at(unit).expert_ranks];
      open.uses.push_back({unit, joined ? 0 : use});
      open.bytes += unit_at(unit).gradient_bytes;
    });
    for (auto& [ranks, open] : buckets_)
      if (open.bytes >= choices_.bucket_bytes) flush(open);
  }
  /// The complete gradients of units whose exchanges are with the same ranks.
  struct bucket {
    std::vector<unit_use> uses = {};
    std::size_t bytes = 0;
  };
  /// Adds the reductions of a bucket, and empties it.
  void flush(bucket& full) {
    if (full.uses.empty()) return;
    last_bucket_action_ = add({.kind = action_kind::reduce,
                               .lane = lane::reductions,
                               .bucket = std::exchange(full.uses, {}),
                               .dependencies = {last_computation_}});
    full.bytes = 0;
  }

  /// Adds the actions that follow the passes.
  void finish() {
    await(last_bucket_action_);
    for_each_trained([&](int unit) { add_unit_action(action_kind::join_uses, unit); });
    int tied = none;
    for_each_trained([&](int unit) {
      if (unit_at(unit).is_tied)
        tied =
            add_unit_action(action_kind::reduce_tied, unit, lane::reductions, {last_computation_});
    });
    await(tied);
    for_each_trained([&](int unit) { add_unit_action(action_kind::measure, unit); });
    // No computation of a rank without trained units has taken over the pending dependencies, so
    // reduce_scalars waits for the messages.
    await(last_computation_);
    await(add({.kind = action_kind::reduce_scalars,
               .lane = lane::reductions,
               .dependencies = std::exchange(pending_dependencies_, {})}));
    add({.kind = action_kind::clip});
    for_each_trained([&](int unit) {
      if (unit_at(unit).exchanges_update) {
        add_unit_action(action_kind::begin_update, unit);
        await(add_unit_action(action_kind::exchange_update, unit, lane::reductions,
                              {last_computation_}));
      }
      add_unit_action(action_kind::update, unit);
    });
    int gathered = none;
    for_each_trained([&](int unit) {
      if (unit_at(unit).is_gathered && choices_.gathers == gather_time::after_update)
        gathered =
            add_unit_action(action_kind::gather, unit, lane::reductions, {last_computation_});
    });
    await(gathered);
  }

  pipeline::plan const& tasks_;
  step_choices choices_;
  unit_buffers buffers_;
  step_plan out_;
  std::vector<int> last_by_stream_;  // by stream: its last action so far
  /// By action and stream: the stream's last action that is complete when this action is complete.
  std::vector<int> clocks_;
  std::vector<int> step_ends_;             // by step of the pipeline's plan: its last action
  std::vector<int> pending_dependencies_;  // dependencies of the next computation
  int begin_ = none;                       // the action of kind begin
  int last_computation_ = none;            // the last action on the stream of computations
  int last_weights_action_ = none;         // the last action on the stream of weights
  int last_bucket_action_ = none;          // the last action of the last bucket
  std::vector<read> reads_;                // the reads of all passes, in order
  std::size_t next_read_ = 0;              // the first read whose pass has not been added
  std::size_t next_unshard_ = 0;           // the first read whose values have not been unsharded
  /// By unit: whether values that stay unsharded, or that were stale, have been made available.
  std::vector<char> is_gathered_;
  std::vector<int> buffer_reshards_;  // by buffer of values: its last reshard
  std::vector<char> is_buffer_busy_;  // by buffer of values: whether a pass still needs its values
  std::vector<int> buffer_reductions_;  // by buffer of gradients: its last reduce_scatter
  std::map<part, std::optional<int>> gradient_buffers_;  // by part: the buffer of its gradients
  std::map<int, bucket> buckets_;                        // by unit's expert_ranks: the open bucket
  std::set<int> reduced_units_;                  // joined units of which a use has been reduced
  std::map<int, std::ptrdiff_t> complete_uses_;  // by joined unit: the number of its complete uses
};

}  // namespace detail

/// Returns the step plan of a rank for its pipeline plan, stages, units and choices. Cost: linear
/// in the number of actions.
template <class = void>
[[nodiscard]] step_plan lower_step(pipeline::plan const& tasks,
                                   std::vector<stage_range> const& stages,
                                   std::vector<planned_unit> const& units,
                                   step_choices const& choices) {
  return detail::step_lowering(tasks, stages, units, choices).lower();
}

}  // namespace parallel::train
