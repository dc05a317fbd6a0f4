// lower_step: makes of a pipeline's plan, a rank's units and the choices of a step the list of all
// that the rank does (step_plan.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <parallel/train/step_plan.hpp>
#include <parallel/train/unit_buffers.hpp>

namespace parallel::train {

namespace detail {

class step_lowering {
 public:
  step_lowering(pipeline::plan const& tasks, std::vector<stage_range> const& stages,
                std::vector<planned_unit> const& units, step_choices const& how)
      : tasks_(tasks), how_(how), buffers_(units, how), gathered_(units.size(), false) {
    out_.ranks = tasks.ranks;
    out_.rank = tasks.rank;
    out_.microbatches = tasks.microbatches;
    out_.mode = how.mode;
    out_.gathers = how.gathers;
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
          if (reads_values(pass.kind)) reads_.push_back({pass.of});
      if (pipeline::is_message(s.kind) &&
          std::ranges::find(out_.links, link_of(s)) == out_.links.end())
        out_.links.push_back(link_of(s));
    }
    tips_.assign(out_.lanes(), none);
  }

  step_plan run() {
    bool const trains = how_.mode == pass::training;
    if (trains) for_each_trained([&](int unit) { of_unit(action_kind::prepare, unit); });
    begin_ = add({.kind = action_kind::begin});
    for (auto const& s : tasks_.steps) {
      if (s.kind == pipeline::step_kind::compute)
        compute(s);
      else
        edge(s);
      ends_.push_back(pipeline::is_message(s.kind) ? last() : tip_);
    }
    if (trains) flush();
    for (std::size_t on = lane::messages; on < tips_.size(); ++on) await(tips_[on]);
    if (trains) finish();
    add({.kind = action_kind::end});
    for (auto const& a : out_.actions)
      for (int const other : a.after) out_.actions[static_cast<std::size_t>(other)].awaited = true;
    return std::move(out_);
  }

 private:
  static constexpr int none = -1;

  struct read {
    part of = embed;
    int buffer = none;     // where its values are; none: where they stay, or whole
    int unsharded = none;  // by this action
  };

  [[nodiscard]] int last() const { return static_cast<int>(out_.actions.size()) - 1; }

  /// Appends an action; what waits for the next computation goes with it if it is one. Waits that
  /// the others, or an earlier action on the same stream, make needless are left out.
  int add(action a) {
    auto const on = static_cast<std::size_t>(a.on);
    if (a.on == lane::compute) {
      a.after.insert(a.after.end(), waiting_.begin(), waiting_.end());
      waiting_.clear();
      tip_ = last() + 1;
    }
    auto const lanes = out_.lanes();
    clocks_.resize(clocks_.size() + lanes, none);
    int* const clock = clocks_.data() + clocks_.size() - lanes;
    auto const join = [&](int other) {
      if (other == none) return;
      int const* const more = clocks_.data() + static_cast<std::size_t>(other) * lanes;
      for (std::size_t i = 0; i < lanes; ++i) clock[i] = std::max(clock[i], more[i]);
    };
    join(tips_[on]);
    std::ranges::sort(a.after, std::greater{});
    std::erase_if(a.after, [&](int other) {
      if (other == none) return true;
      bool const needless = clock[out_.actions[static_cast<std::size_t>(other)].on] >= other;
      join(other);
      return needless;
    });
    out_.actions.push_back(std::move(a));
    return clock[on] = tips_[on] = last();
  }
  int of_unit(action_kind kind, int unit, int on = lane::compute, std::vector<int> after = {}) {
    return add({.kind = kind, .on = on, .unit = unit, .after = std::move(after)});
  }
  /// The next computation waits for an action of another stream.
  void await(int other) {
    if (other != none) waiting_.push_back(other);
  }

  [[nodiscard]] std::vector<part_pass> passes(pipeline::step const& s) const {
    return passes_of(out_.stages[out_.chunk_of(s.at)], s.computes, how_.mode, how_.overlap_weights);
  }

  template <class F>
  void for_each_trained(F&& f) {
    for (int unit = 0; unit < std::ssize(out_.units); ++unit)
      if (at(unit).gradient_bytes > 0) f(unit);
  }
  template <class F>
  void for_each_use(part p, F&& f) {
    for (int unit = 0; unit < std::ssize(out_.units); ++unit)
      for (int use = 0; use < std::ssize(at(unit).parts); ++use)
        if (at(unit).parts[static_cast<std::size_t>(use)] == p) f(unit, use);
  }
  [[nodiscard]] planned_unit const& at(int unit) const {
    return out_.units[static_cast<std::size_t>(unit)];
  }

  void edge(pipeline::step const& s) {
    std::vector<int> after;
    for (int const other : s.after) after.push_back(ends_[static_cast<std::size_t>(other)]);
    action a{.kind = action_kind::edge, .edge = s.kind, .at = s.at, .peer = s.peer};
    if (a.is_message()) {
      auto const found = std::ranges::find(out_.links, link_of(s));
      a.on = lane::messages + static_cast<int>(found - out_.links.begin());
      after.push_back(begin_);
    }
    a.after = std::move(after);
    add(std::move(a));
  }
  [[nodiscard]] static std::pair<int, bool> link_of(pipeline::step const& message) {
    return {message.peer, pipeline::sends(message.kind)};
  }

  void compute(pipeline::step const& s) {
    for (int const other : s.after) await(ends_[static_cast<std::size_t>(other)]);
    for (auto const& pass : passes(s)) {
      bool const reads = reads_values(pass.kind);
      if (reads) unshard_until(next_read_ + static_cast<std::size_t>(how_.prefetch));
      if (adds_gradients(pass.kind)) begin_gradients(s, pass.of);
      bool const aside = pass.beside && pass.kind == pass_kind::backward_weight;
      if (pass.kind == pass_kind::join) await(aside_);
      if (reads) await(reads_[next_read_].unsharded);
      int const number = add({.kind = action_kind::pass,
                              .does = pass.kind,
                              .first = s.first,
                              .last = s.last,
                              .beside = pass.beside,
                              .on = aside ? lane::weights : lane::compute,
                              .of = pass.of,
                              .at = s.at,
                              .buffer = reads ? reads_[next_read_].buffer : none,
                              .after = {aside ? tip_ : none}});
      if (aside) aside_ = number;
      if (reads) reshard();
      if (pass.kind == pass_kind::join || (adds_gradients(pass.kind) && !aside))
        end_gradients(s, pass.of);
    }
  }

  /// Unshards for the passes up to this one, in their order; those ahead as far as their buffers
  /// are free.
  void unshard_until(std::size_t last) {
    for (; unsharded_ <= last && unsharded_ < reads_.size(); ++unsharded_) {
      auto& of = reads_[unsharded_];
      int const next = buffers_.values.peek(of.of);
      if (next != none && busy_[static_cast<std::size_t>(next)]) break;
      for (int unit = 0; unit < std::ssize(out_.units); ++unit) {
        auto const number = static_cast<std::size_t>(unit);
        bool const stays = buffers_.kept[number] != none;
        bool const stale = at(unit).gathered && how_.gathers == gather_time::before_use;
        if (!(stays || stale) || gathered_[number] || !at(unit).is_used_by(of.of)) continue;
        of.unsharded = stays ? unshard(of.of, unit, none, buffers_.kept[number], begin_)
                             : of_unit(action_kind::gather, unit, lane::gathers, {begin_});
        gathered_[number] = true;
      }
      of.buffer = buffers_.values.take(of.of);
      if (of.buffer == none) continue;
      auto const buffer = static_cast<std::size_t>(of.buffer);
      busy_[buffer] = true;
      for_each_use(of.of, [&](int unit, int use) {
        if (at(unit).values > 0)
          of.unsharded = unshard(of.of, unit, use, of.buffer, released_[buffer]);
      });
    }
  }
  int unshard(part p, int unit, int use, int buffer, int free) {
    return add({.kind = action_kind::unshard,
                .on = lane::gathers,
                .of = p,
                .unit = unit,
                .use = use,
                .buffer = buffer,
                .after = {free == none ? begin_ : free}});
  }
  /// What the pass that was just added has read is not needed any more.
  void reshard() {
    auto const& of = reads_[next_read_++];
    if (of.buffer == none) return;
    auto const buffer = static_cast<std::size_t>(of.buffer);
    released_[buffer] = add({.kind = action_kind::reshard, .of = of.of, .buffer = of.buffer});
    busy_[buffer] = false;
  }

  void begin_gradients(pipeline::step const& s, part p) {
    int const buffer = holding_[p] = buffers_.gradients.take(p);
    if (buffer != none) await(reduced_[static_cast<std::size_t>(buffer)]);
    if (buffer != none || how_.canonical_tree)
      of_gradients(action_kind::begin_gradients, s, p, buffer);
  }
  void end_gradients(pipeline::step const& s, part p) {
    if (how_.canonical_tree) of_gradients(action_kind::end_gradients, s, p, none);
    if (int const buffer = holding_[p]; buffer != none)
      for_each_use(p, [&](int unit, int use) {
        if (at(unit).gradients > 0)
          reduced_[static_cast<std::size_t>(buffer)] =
              of_gradients(action_kind::reduce_scatter, s, p, buffer, unit, use);
      });
    if (s.last) complete(p);
  }
  int of_gradients(action_kind kind, pipeline::step const& s, part p, int buffer, int unit = none,
                   int use = none) {
    bool const reduces = kind == action_kind::reduce_scatter;
    return add({.kind = kind,
                .first = s.first,
                .last = s.last,
                .on = reduces ? lane::reductions : lane::compute,
                .of = p,
                .at = s.at,
                .unit = unit,
                .use = use,
                .buffer = buffer,
                .after = {reduces ? tip_ : none}});
  }

  /// The gradients of a part are complete: its uses, those that are joined when all are, go to the
  /// bucket, which starts when it is full.
  void complete(part p) {
    if (how_.canonical_tree) add({.kind = action_kind::finish_tree, .of = p});
    for_each_use(p, [&](int unit, int use) {
      if (at(unit).gradient_bytes == 0) return;
      bool const joined = at(unit).joined;
      if (joined && ++complete_uses_[unit] < std::ssize(at(unit).parts)) return;
      bucket_.emplace_back(unit, joined ? 0 : use);
      bucket_bytes_ += at(unit).gradient_bytes;
    });
    if (bucket_bytes_ >= how_.bucket_bytes) flush();
  }
  void flush() {
    for (auto const& [unit, use] : bucket_)
      reduction_ = add({.kind = action_kind::reduce,
                        .last = std::pair(unit, use) == bucket_.back(),
                        .on = lane::reductions,
                        .unit = unit,
                        .use = use,
                        .bucket = buckets_,
                        .after = {tip_}});
    if (!bucket_.empty()) ++buckets_;
    bucket_.clear();
    bucket_bytes_ = 0;
  }

  /// What follows the passes.
  void finish() {
    await(reduction_);
    for_each_trained([&](int unit) { of_unit(action_kind::join_uses, unit); });
    int tied = none;
    for_each_trained([&](int unit) {
      if (at(unit).tied) tied = of_unit(action_kind::reduce_tied, unit, lane::reductions, {tip_});
    });
    await(tied);
    for_each_trained([&](int unit) { of_unit(action_kind::measure, unit); });
    await(add({.kind = action_kind::reduce_scalars, .on = lane::reductions, .after = {tip_}}));
    add({.kind = action_kind::clip});
    for_each_trained([&](int unit) {
      if (at(unit).exchanges_update) {
        of_unit(action_kind::begin_update, unit);
        await(of_unit(action_kind::exchange_update, unit, lane::reductions, {tip_}));
      }
      of_unit(action_kind::update, unit);
    });
    int gathered = none;
    for_each_trained([&](int unit) {
      if (at(unit).gathered && how_.gathers == gather_time::after_update)
        gathered = of_unit(action_kind::gather, unit, lane::reductions, {tip_});
    });
    await(gathered);
  }

  pipeline::plan const& tasks_;
  step_choices how_;
  unit_buffers buffers_;
  step_plan out_;
  std::vector<int> tips_;     // the last action so far on each stream
  std::vector<int> clocks_;   // by action and stream: the last action there that is over
  std::vector<int> ends_;     // by step of the pipeline's plan: the action that ends it
  std::vector<int> waiting_;  // what the next computation is after
  int begin_ = none;
  int tip_ = none;              // the last computation
  int aside_ = none;            // the last on the stream of weights
  int reduction_ = none;        // the last of a bucket
  std::vector<read> reads_;     // passes that read values, in order
  std::size_t next_read_ = 0;   // the first that was not added
  std::size_t unsharded_ = 0;   // the first for which nothing was unsharded
  std::vector<char> gathered_;  // by unit, of those that stay or are stale
  std::vector<int> released_;   // by buffer of values: its last reshard
  std::vector<char> busy_;
  std::vector<int> reduced_;                 // by buffer of gradients: the last reduction out of it
  std::map<part, int> holding_;              // the buffer of its gradients
  std::vector<std::pair<int, int>> bucket_;  // units and uses
  std::size_t bucket_bytes_ = 0;
  std::map<int, std::ptrdiff_t> complete_uses_;  // by unit, of those that are joined
  int buckets_ = 0;
};

}  // namespace detail

/// The step of the rank whose pipeline plan, stages and units these are. Cost: linear in its
/// length.
[[nodiscard]] inline step_plan lower_step(pipeline::plan const& tasks,
                                          std::vector<stage_range> const& stages,
                                          std::vector<planned_unit> const& units,
                                          step_choices const& how) {
  return detail::step_lowering(tasks, stages, units, how).run();
}

}  // namespace parallel::train
