// step_check_units: that the passes of a rank's list find the values of their units where they read
// them, that every gradient is reduced once, when it is complete, and that the update of every unit
// comes once and last.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <parallel/train/step_order.hpp>

namespace parallel::train::detail {

class step_check_units {
 public:
  explicit step_check_units(step_order& order)
      : order_(order),
        of_(order.plan()),
        values_(of_.values.size()),
        gradients_(of_.gradients.size()),
        units_(of_.units.size()) {
    part last = embed;
    for (auto const& range : of_.stages) {
      first_part_ = std::min(first_part_, range.front());
      last = std::max(last, range.back());
    }
    parts_.resize(static_cast<std::size_t>(last - first_part_ + 1));
    for (std::size_t unit = 0; unit < of_.units.size(); ++unit)
      for (std::size_t use = 0; use < of_.units[unit].parts.size(); ++use) {
        at(of_.units[unit].parts[use]).uses.push_back({unit, use});
        units_[unit].uses.push_back({});
      }
  }

  void follow_pass(action const& a) {
    if (reads_values(a.does)) read_values(a);
    if (adds_gradients(a.does)) add_gradients(a);
  }

  void follow(action const& a) {
    using enum action_kind;
    switch (a.kind) {
      case unshard: return follow_unshard(a);
      case reshard: return follow_reshard(a);
      case begin_gradients: return follow_begin(a);
      case end_gradients: return follow_leaf(a);
      case reduce_scatter: return follow_scatter(a);
      case finish_tree: return follow_tree(a);
      case reduce: return follow_reduce(a);
      default: return follow_update(a);
    }
  }

  /// After the last action.
  void end() {
    for (auto const& buffer : values_)
      order_.expect(!buffer.open || buffer.stays, step_flaw::missing);
    order_.expect(in_bucket_ == none, step_flaw::unreduced);
    for (std::size_t i = 0; i < units_.size(); ++i) {
      auto const& planned = of_.units[i];
      bool const updates = order_.trains() && planned.gradient_bytes > 0;
      bool const gathers =
          planned.gathered && (of_.gathers == gather_time::before_use ||
                               (of_.gathers == gather_time::after_update && updates));
      order_.expect(!updates || order_.done(units_[i].updated), step_flaw::missing);
      order_.expect(!gathers || order_.done(units_[i].gathered), step_flaw::missing);
    }
  }

 private:
  static constexpr int none = step_order::none;

  struct use_state {
    int buffer = none;  // of its values, when they stay
    int scattered = 0;  // microbatches reduced
    int reduced = none;
  };
  struct unit_state {
    std::vector<use_state> uses = {};
    int prepared = none, joined = none, tied = none, measured = none, begun = none,
        exchanged = none, updated = none, gathered = none;
  };
  struct part_state {
    std::vector<std::pair<std::size_t, std::size_t>> uses = {};  // units and their uses
    int added = 0;                                               // microbatches
    int last_added = none;
    int leaf = none;  // the microbatch whose leaf is open
    int leaves = 0;
    int finished = none;  // its trees
  };
  struct value_buffer : checked_memory {
    part tenant = 0;
    index used = 0;
    int uses = 0;
    bool open = false;
    bool stays = false;
  };
  struct gradient_buffer : checked_memory {
    part tenant = 0;
    int waiting = 0;  // uses to be reduced
    int added = none;
    int number = 0;  // of that microbatch among those added, from 1
  };

  part_state& at(part p) { return parts_[static_cast<std::size_t>(p - first_part_)]; }
  unit_state& unit(action const& a) { return units_[static_cast<std::size_t>(a.unit)]; }
  planned_unit const& planned(action const& a) const {
    return of_.units[static_cast<std::size_t>(a.unit)];
  }

  /// Values that are not held whole are all in the buffer that the pass names, or where they stay;
  /// whole ones are what the step before has changed.
  void read_values(action const& a) {
    int in_buffer = 0;
    for (auto const& [number, use] : at(a.of).uses) {
      if (of_.units[number].gathered && of_.gathers == gather_time::before_use)
        order_.expect(order_.done(units_[number].gathered), step_flaw::stale);
      if (of_.units[number].values == 0) continue;
      if (int const own = units_[number].uses[use].buffer; own != none)
        order_.read(values_[static_cast<std::size_t>(own)]);
      else
        ++in_buffer;
    }
    if (in_buffer == 0) return;
    if (a.buffer == none) return order_.blame(step_flaw::absent);
    auto& buffer = values_[static_cast<std::size_t>(a.buffer)];
    order_.expect(buffer.open && buffer.tenant == a.of && buffer.uses == in_buffer,
                  step_flaw::absent);
    order_.read(buffer);
  }
  void follow_unshard(action const& a) {
    auto& buffer = values_[static_cast<std::size_t>(a.buffer)];
    bool const stays = a.use == none;
    order_.expect(planned(a).is_used_by(a.of) && planned(a).values > 0 &&
                      (stays || planned(a).parts[static_cast<std::size_t>(a.use)] == a.of),
                  step_flaw::out_of_order);
    if (buffer.open) {
      order_.expect(!stays && buffer.tenant == a.of, step_flaw::race);
    } else {
      order_.write(buffer, none);
      buffer.open = true;
      buffer.stays = stays;
      buffer.used = buffer.uses = 0;
      buffer.tenant = a.of;
    }
    buffer.used += planned(a).values;
    ++buffer.uses;
    buffer.written = order_.now();
    order_.expect(buffer.used <= of_.values[static_cast<std::size_t>(a.buffer)], step_flaw::race);
    if (stays)
      for (auto& use : unit(a).uses) use.buffer = a.buffer;
  }
  void follow_reshard(action const& a) {
    auto& buffer = values_[static_cast<std::size_t>(a.buffer)];
    order_.expect(buffer.open && buffer.tenant == a.of, step_flaw::out_of_order);
    order_.read(buffer);
    buffer.open = false;
  }

  [[nodiscard]] bool scatters(part p) {
    return std::ranges::any_of(at(p).uses,
                               [&](auto const& use) { return of_.units[use.first].gradients > 0; });
  }

  void follow_begin(action const& a) {
    auto& state = at(a.of);
    if (a.buffer == none) {
      order_.expect(state.leaf == none && state.leaves == state.added, step_flaw::out_of_order);
      state.leaf = a.at.microbatch;
      return;
    }
    auto& buffer = gradients_[static_cast<std::size_t>(a.buffer)];
    order_.expect(buffer.waiting == 0, step_flaw::race);
    order_.write(buffer, a.at.microbatch);
    buffer.tenant = a.of;
    buffer.added = none;
    for (auto const& [number, use] : state.uses)
      if (of_.units[number].gradients > 0) ++buffer.waiting;
  }
  void add_gradients(action const& a) {
    auto& state = at(a.of);
    order_.expect(a.first == (state.added == 0), step_flaw::stale);
    if (scatters(a.of)) {
      gradient_buffer* own = nullptr;
      for (auto& buffer : gradients_)
        if (buffer.waiting > 0 && buffer.tenant == a.of && buffer.holds == a.at.microbatch)
          own = &buffer;
      if (own == nullptr || own->added != none) return order_.blame(step_flaw::absent);
      order_.expect(order_.over(own->written), step_flaw::race);
      own->written = own->added = order_.now();
      own->number = state.added + 1;
    }
    if (state.leaves != 0 || state.leaf != none)
      order_.expect(state.leaf == a.at.microbatch, step_flaw::absent);
    for (auto const& [number, use] : state.uses) {
      if (of_.units[number].gradient_bytes > 0)
        order_.expect(order_.done(units_[number].prepared), step_flaw::absent);
      if (of_.units[number].joined)
        for (part const other : of_.units[number].parts)
          order_.expect(order_.over(at(other).last_added), step_flaw::race);
    }
    order_.expect(order_.over(state.last_added), step_flaw::race);
    state.last_added = order_.now();
    ++state.added;
  }
  void follow_leaf(action const& a) {
    auto& state = at(a.of);
    order_.expect(state.leaf == a.at.microbatch && state.added == state.leaves + 1,
                  step_flaw::out_of_order);
    order_.expect(order_.over(state.last_added), step_flaw::race);
    state.leaf = none;
    ++state.leaves;
  }
  void follow_tree(action const& a) {
    order_.expect(at(a.of).leaves == of_.microbatches && at(a.of).finished == none,
                  step_flaw::unreduced);
    at(a.of).finished = order_.now();
  }
  void follow_scatter(action const& a) {
    auto& buffer = gradients_[static_cast<std::size_t>(a.buffer)];
    auto& use = unit(a).uses[static_cast<std::size_t>(a.use)];
    order_.expect(buffer.waiting > 0 && buffer.tenant == a.of && buffer.holds == a.at.microbatch,
                  step_flaw::reduced_twice);
    order_.expect(buffer.added != none, step_flaw::unreduced);
    order_.read(buffer);
    order_.expect(a.first == (use.scattered == 0), step_flaw::stale);
    // the next microbatch may be under way by now, into another buffer
    order_.expect(use.scattered + 1 == buffer.number, step_flaw::reduced_twice);
    ++use.scattered;
    --buffer.waiting;
  }

  void follow_reduce(action const& a) {
    for (std::size_t i = 0; i < unit(a).uses.size(); ++i) {
      if (!planned(a).joined && i != static_cast<std::size_t>(a.use)) continue;
      auto& use = unit(a).uses[i];
      part const p = planned(a).parts[i];
      order_.expect(use.reduced == none, step_flaw::reduced_twice);
      order_.expect(at(p).added == of_.microbatches, step_flaw::unreduced);
      order_.expect(planned(a).gradients == 0 || use.scattered == of_.microbatches,
                    step_flaw::unreduced);
      order_.expect(at(p).leaves == 0 || order_.done(at(p).finished), step_flaw::unreduced);
      order_.expect(order_.over(at(p).last_added), step_flaw::race);
      use.reduced = order_.now();
      bucket_.push_back(&use);
    }
    // the last of a bucket makes the call; until then nothing of it is over
    order_.expect(in_bucket_ == none || in_bucket_ == a.bucket, step_flaw::out_of_order);
    in_bucket_ = a.last ? none : a.bucket;
    for (auto* const use : bucket_) use->reduced = order_.now();
    if (a.last) bucket_.clear();
  }

  /// What follows the passes. Each unit's comes once, after what it needs.
  void follow_update(action const& a) {
    using enum action_kind;
    auto const once = [&](int& when, bool ready, step_flaw what) {
      order_.expect(when == none, step_flaw::out_of_order);
      order_.expect(ready, what);
      when = order_.now();
    };
    auto const all = [&](auto&& is_done) {
      for (std::size_t i = 0; i < units_.size(); ++i)
        if (of_.units[i].gradient_bytes > 0 && !is_done(i)) return false;
      return true;
    };
    if (a.kind == reduce_scalars) {
      order_.expect(order_.all_over(), step_flaw::race);
      return once(scalars_, all([&](std::size_t i) { return order_.done(units_[i].measured); }),
                  step_flaw::unreduced);
    }
    if (a.kind == clip) return once(clipped_, order_.done(scalars_), step_flaw::race);
    auto& u = unit(a);
    switch (a.kind) {
      case prepare: return once(u.prepared, order_.begun() == none, step_flaw::out_of_order);
      case join_uses:
        return once(
            u.joined,
            in_bucket_ == none &&
                std::ranges::all_of(u.uses, [&](auto& use) { return order_.done(use.reduced); }),
            step_flaw::unreduced);
      case reduce_tied:
        return once(u.tied, order_.done(u.joined) && planned(a).tied, step_flaw::race);
      case measure:
        return once(u.measured, order_.done(u.joined) && (!planned(a).tied || order_.done(u.tied)),
                    step_flaw::unreduced);
      case begin_update:
        order_.write(workspace_, a.unit);
        return once(u.begun,
                    order_.done(clipped_) && order_.done(u.measured) && planned(a).exchanges_update,
                    step_flaw::race);
      case exchange_update:
        follow_workspace(a);
        order_.write(workspace_, a.unit);
        return once(u.exchanged, order_.done(u.begun), step_flaw::race);
      case update:
        if (planned(a).exchanges_update) {
          follow_workspace(a);
          order_.expect(order_.done(u.exchanged), step_flaw::unreduced);
        }
        return once(u.updated, order_.done(clipped_) && order_.done(u.measured), step_flaw::race);
      case gather:
        order_.expect(planned(a).gathered && of_.gathers != gather_time::never,
                      step_flaw::out_of_order);
        return once(
            u.gathered,
            of_.gathers == gather_time::before_use ? u.updated == none : order_.done(u.updated),
            step_flaw::race);
      default: order_.blame(step_flaw::out_of_order);
    }
  }

  /// What the unit's optimizers have put there is there.
  void follow_workspace(action const& a) {
    order_.read(workspace_);
    order_.expect(workspace_.holds == a.unit, step_flaw::stale);
  }

  step_order& order_;
  step_plan const& of_;
  checked_memory workspace_;        // of optimizers
  std::vector<use_state*> bucket_;  // whose reduction has not been enqueued
  int in_bucket_ = none;
  std::vector<value_buffer> values_;
  std::vector<gradient_buffer> gradients_;
  std::vector<unit_state> units_;
  std::vector<part_state> parts_;  // from first_part_ on
  part first_part_ = std::numeric_limits<part>::max();
  int scalars_ = none, clipped_ = none;
};

}  // namespace parallel::train::detail
