// lower_step: makes the list of all actions of a rank (step_plan.hpp) from a pipeline's plan, the
// rank's units and the choices of a step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
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
      : tasks_(tasks), choices_(choices), buffers_(units, choices), gathered_(units.size(), false) {
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
    released_.assign(out_.values.size(), none);
    busy_.assign(out_.values.size(), false);
    reduced_.assign(out_.gradients.size(), none);
    for (auto const& s : tasks.steps) {
      if (s.kind == pipeline::step_kind::compute)
        for (auto const& pass : passes(s))
          if (reads_values(pass.kind)) reads_.push_back({pass.model_part});
      if (pipeline::is_message(s.kind) &&
          std::ranges::find(out_.links, link_of(s)) == out_.links.end())
        out_.links.push_back(link_of(s));
    }
    tips_.assign(out_.lanes(), none);
  }

  step_plan run() {
    bool const trains = choices_.mode == pass::training;
    if (trains) for_each_trained([&](int unit) { add_unit_action(action_kind::prepare, unit); });
    begin_ = add({.kind = action_kind::begin});
    for (auto const& s : tasks_.steps) {
      if (s.kind == pipeline::step_kind::compute)
        compute(s);
      else
        edge(s);
      ends_.push_back(pipeline::is_message(s.kind) ? last() : tip_);
    }
    if (trains) flush();
    for (std::size_t stream = lane::messages; stream < tips_.size(); ++stream) await(tips_[stream]);
    if (trains) finish();
    add({.kind = action_kind::end});
    for (auto const& a : out_.actions)
      for (int const other : a.dependencies)
        out_.actions[static_cast<std::size_t>(other)].is_awaited = true;
    return std::move(out_);
  }

 private:
  static constexpr int none = -1;

  struct read {
    part model_part = embed;
    int buffer = none;     // the buffer of its values; none: in their unit's own buffer, or whole
    int unsharded = none;  // the action that unshards them
  };

  [[nodiscard]] int last() const { return static_cast<int>(out_.actions.size()) - 1; }

  /// Appends an action; a computation also waits for everything in waiting_. Waits that the others,
  /// or an earlier action on the same stream, make needless are left out.
  int add(action a) {
    auto const stream = static_cast<std::size_t>(a.lane);
    if (a.lane == lane::compute) {
      a.dependencies.insert(a.dependencies.end(), waiting_.begin(), waiting_.end());
      waiting_.clear();
      tip_ = last() + 1;
    }
    auto const lanes = out_.lanes();
    clocks_.resize(clocks_.size() + lanes, none);
    int* const clock = clocks_.data() + clocks_.size() - lanes;
    auto const join = [&](int other) {
      if (other == none) return;
      int const* const other_clock = clocks_.data() + static_cast<std::size_t>(other) * lanes;
      for (std::size_t i = 0; i < lanes; ++i) clock[i] = std::max(clock[i], other_clock[i]);
    };
    join(tips_[stream]);
    std::ranges::sort(a.dependencies, std::greater{});
    std::erase_if(a.dependencies, [&](int other) {
      if (other == none) return true;
      bool const needless = clock[out_.actions[static_cast<std::size_t>(other)].lane] >= other;
      join(other);
      return needless;
    });
    out_.actions.push_back(std::move(a));
    return clock[stream] = tips_[stream] = last();
  }
  int add_unit_action(action_kind kind, int unit, int stream = lane::compute,
                      std::vector<int> dependencies = {}) {
    return add(
        {.kind = kind, .lane = stream, .unit = unit, .dependencies = std::move(dependencies)});
  }
  /// The next computation waits for an action of another stream.
  void await(int other) {
    if (other != none) waiting_.push_back(other);
  }

  [[nodiscard]] std::vector<part_pass> passes(pipeline::step const& s) const {
    return passes_of(out_.stages[out_.chunk_of(s.task)], s.computes, choices_.mode,
                     choices_.overlap_weights);
  }

  template <class F>
  void for_each_trained(F&& f) {
    for (int unit = 0; unit < std::ssize(out_.units); ++unit)
      if (unit_at(unit).gradient_bytes > 0) f(unit);
  }
  template <class F>
  void for_each_use(part p, F&& f) {
    for (int unit = 0; unit < std::ssize(out_.units); ++unit)
      for (int use = 0; use < std::ssize(unit_at(unit).parts); ++use)
        if (unit_at(unit).parts[static_cast<std::size_t>(use)] == p) f(unit, use);
  }
  [[nodiscard]] planned_unit const& unit_at(int unit) const {
    return out_.units[static_cast<std::size_t>(unit)];
  }

  void edge(pipeline::step const& s) {
    std::vector<int> dependencies;
    for (int const other : s.dependencies)
      dependencies.push_back(ends_[static_cast<std::size_t>(other)]);
    action a{.kind = action_kind::edge, .edge = s.kind, .task = s.task, .peer = s.peer};
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

  void compute(pipeline::step const& s) {
    for (int const other : s.dependencies) await(ends_[static_cast<std::size_t>(other)]);
    for (auto const& pass : passes(s)) {
      bool const reads = reads_values(pass.kind);
      if (reads) unshard_until(next_read_ + static_cast<std::size_t>(choices_.prefetch));
      if (adds_gradients(pass.kind)) begin_gradients(s, pass.model_part);
      bool const runs_aside = pass.is_overlapped && pass.kind == pass_kind::backward_weight;
      if (pass.kind == pass_kind::join) await(weights_tip_);
      if (reads) await(reads_[next_read_].unsharded);
      int const number = add({.kind = action_kind::pass,
                              .pass = pass.kind,
                              .first = s.first,
                              .last = s.last,
                              .is_overlapped = pass.is_overlapped,
                              .lane = runs_aside ? lane::weights : lane::compute,
                              .model_part = pass.model_part,
                              .task = s.task,
                              .buffer = reads ? reads_[next_read_].buffer : none,
                              .dependencies = {runs_aside ? tip_ : none}});
      if (runs_aside) weights_tip_ = number;
      if (reads) reshard();
      if (pass.kind == pass_kind::join || (adds_gradients(pass.kind) && !runs_aside))
        end_gradients(s, pass.model_part);
    }
  }

  /// Unshards for the passes up to number `last`, in their order; for later ones as long as their
  /// buffers are free.
  void unshard_until(std::size_t last) {
    for (; unsharded_ <= last && unsharded_ < reads_.size(); ++unsharded_) {
      auto& upcoming = reads_[unsharded_];
      int const next_buffer = buffers_.values.peek(upcoming.model_part);
      if (next_buffer != none && busy_[static_cast<std::size_t>(next_buffer)]) break;
      for (int unit = 0; unit < std::ssize(out_.units); ++unit) {
        auto const number = static_cast<std::size_t>(unit);
        bool const stays = buffers_.own_buffers[number] != none;
        bool const stale = unit_at(unit).gathered && choices_.gathers == gather_time::before_use;
        if (!(stays || stale) || gathered_[number] ||
            !unit_at(unit).is_used_by(upcoming.model_part))
          continue;
        upcoming.unsharded =
            stays ? unshard(upcoming.model_part, unit, none, buffers_.own_buffers[number], begin_)
                  : add_unit_action(action_kind::gather, unit, lane::gathers, {begin_});
        gathered_[number] = true;
      }
      upcoming.buffer = buffers_.values.take(upcoming.model_part);
      if (upcoming.buffer == none) continue;
      auto const buffer = static_cast<std::size_t>(upcoming.buffer);
      busy_[buffer] = true;
      for_each_use(upcoming.model_part, [&](int unit, int use) {
        if (unit_at(unit).values > 0)
          upcoming.unsharded =
              unshard(upcoming.model_part, unit, use, upcoming.buffer, released_[buffer]);
      });
    }
  }
  int unshard(part p, int unit, int use, int buffer, int free) {
    return add({.kind = action_kind::unshard,
                .lane = lane::gathers,
                .model_part = p,
                .unit = unit,
                .use = use,
                .buffer = buffer,
                .dependencies = {free == none ? begin_ : free}});
  }
  /// The values that the pass that was just added has read are not needed any more.
  void reshard() {
    auto const& finished_read = reads_[next_read_++];
    if (finished_read.buffer == none) return;
    auto const buffer = static_cast<std::size_t>(finished_read.buffer);
    released_[buffer] = add({.kind = action_kind::reshard,
                             .model_part = finished_read.model_part,
                             .buffer = finished_read.buffer});
    busy_[buffer] = false;
  }

  void begin_gradients(pipeline::step const& s, part p) {
    int const buffer = holding_[p] = buffers_.gradients.take(p);
    if (buffer != none) await(reduced_[static_cast<std::size_t>(buffer)]);
    if (buffer != none || choices_.canonical_tree)
      add_gradient_action(action_kind::begin_gradients, s, p, buffer);
  }
  void end_gradients(pipeline::step const& s, part p) {
    if (choices_.canonical_tree) add_gradient_action(action_kind::end_gradients, s, p, none);
    if (int const buffer = holding_[p]; buffer != none)
      for_each_use(p, [&](int unit, int use) {
        if (unit_at(unit).gradients > 0)
          reduced_[static_cast<std::size_t>(buffer)] =
              add_gradient_action(action_kind::reduce_scatter, s, p, buffer, unit, use);
      });
    if (s.last) complete(p);
  }
  int add_gradient_action(action_kind kind, pipeline::step const& s, part p, int buffer,
                          int unit = none, int use = none) {
    bool const reduces = kind == action_kind::reduce_scatter;
    bool const joins_earlier = reduces && unit_at(unit).joined && !scattered_.insert(unit).second;
    return add({.kind = kind,
                .first = s.first && !joins_earlier,
                .last = s.last,
                .lane = reduces ? lane::reductions : lane::compute,
                .model_part = p,
                .task = s.task,
                .unit = unit,
                .use = use,
                .buffer = buffer,
                .dependencies = {reduces ? tip_ : none}});
  }

  /// The gradients of a part are complete: its uses go to the bucket, joined ones when all uses of
  /// their unit are complete; the bucket starts when it is full.
  void complete(part p) {
    if (choices_.canonical_tree) add({.kind = action_kind::finish_tree, .model_part = p});
    for_each_use(p, [&](int unit, int use) {
      if (unit_at(unit).gradient_bytes == 0) return;
      bool const joined = unit_at(unit).joined;
      if (joined && ++complete_uses_[unit] < std::ssize(unit_at(unit).parts)) return;
      bucket_.push_back({unit, joined ? 0 : use});
      bucket_bytes_ += unit_at(unit).gradient_bytes;
    });
    if (bucket_bytes_ >= choices_.bucket_bytes) flush();
  }
  void flush() {
    if (bucket_.empty()) return;
    reduction_ = add({.kind = action_kind::reduce,
                      .lane = lane::reductions,
                      .bucket = std::exchange(bucket_, {}),
                      .dependencies = {tip_}});
    bucket_bytes_ = 0;
  }

  /// Adds the actions that follow the passes.
  void finish() {
    await(reduction_);
    for_each_trained([&](int unit) { add_unit_action(action_kind::join_uses, unit); });
    int tied = none;
    for_each_trained([&](int unit) {
      if (unit_at(unit).tied)
        tied = add_unit_action(action_kind::reduce_tied, unit, lane::reductions, {tip_});
    });
    await(tied);
    for_each_trained([&](int unit) { add_unit_action(action_kind::measure, unit); });
    // A rank that trains nothing has no computation yet that has waited for its messages.
    await(tip_);
    await(add({.kind = action_kind::reduce_scalars,
               .lane = lane::reductions,
               .dependencies = std::exchange(waiting_, {})}));
    add({.kind = action_kind::clip});
    for_each_trained([&](int unit) {
      if (unit_at(unit).exchanges_update) {
        add_unit_action(action_kind::begin_update, unit);
        await(add_unit_action(action_kind::exchange_update, unit, lane::reductions, {tip_}));
      }
      add_unit_action(action_kind::update, unit);
    });
    int gathered = none;
    for_each_trained([&](int unit) {
      if (unit_at(unit).gathered && choices_.gathers == gather_time::after_update)
        gathered = add_unit_action(action_kind::gather, unit, lane::reductions, {tip_});
    });
    await(gathered);
  }

  pipeline::plan const& tasks_;
  step_choices choices_;
  unit_buffers buffers_;
  step_plan out_;
  std::vector<int> tips_;  // by stream: its last action so far
  std::vector<int>
      clocks_;  // by action and stream: the last action there that is complete when this one ends
  std::vector<int> ends_;     // by step of the pipeline's plan: the action that ends it
  std::vector<int> waiting_;  // dependencies of the next computation
  int begin_ = none;
  int tip_ = none;             // the last computation
  int weights_tip_ = none;     // the last action on the stream of weights
  int reduction_ = none;       // the last reduction of a bucket
  std::vector<read> reads_;    // passes that read values, in order
  std::size_t next_read_ = 0;  // the first read whose pass has not been added
  std::size_t unsharded_ = 0;  // the first read for which nothing was unsharded
  std::vector<char>
      gathered_;  // by unit: its values that stay, or are stale, have been unsharded or gathered
  std::vector<int> released_;  // by buffer of values: its last reshard
  std::vector<char> busy_;
  std::vector<int> reduced_;      // by buffer of gradients: the last reduction out of it
  std::set<int> scattered_;       // joined units of which a use has been reduced
  std::map<part, int> holding_;   // by part: the buffer of its gradients
  std::vector<unit_use> bucket_;  // uses whose reduction has not been added
  std::size_t bucket_bytes_ = 0;
  std::map<int, std::ptrdiff_t> complete_uses_;  // by joined unit: the number of its complete uses
};

}  // namespace detail

/// The step of a rank, from its pipeline plan, stages and units. Cost: linear in the step's length.
[[nodiscard]] inline step_plan lower_step(pipeline::plan const& tasks,
                                          std::vector<stage_range> const& stages,
                                          std::vector<planned_unit> const& units,
                                          step_choices const& choices) {
  return detail::step_lowering(tasks, stages, units, choices).run();
}

}  // namespace parallel::train
