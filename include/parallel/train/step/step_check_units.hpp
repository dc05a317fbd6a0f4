// step_check_units: checks that the passes of a rank's list find the values of their units where
// they read them, that every gradient is reduced once, when it is complete, and that the update of
// every unit runs once, as the unit's last action.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <parallel/train/step/step_order.hpp>

namespace parallel::train::detail {

class step_check_units {
 public:
  explicit step_check_units(step_order& order)
      : order_(order),
        plan_(order.plan()),
        values_(plan_.values.size()),
        gradients_(plan_.gradients.size()),
        units_(plan_.units.size()) {
    part last = embed;
    for (auto const& range : plan_.stages) {
      first_part_ = std::min(first_part_, range.front());
      last = std::max(last, range.back());
    }
    parts_.resize(static_cast<std::size_t>(last - first_part_ + 1));
    for (std::size_t unit = 0; unit < plan_.units.size(); ++unit)
      for (std::size_t use = 0; use < plan_.units[unit].parts.size(); ++use) {
        part_state_of(plan_.units[unit].parts[use]).uses.push_back({unit, use});
        units_[unit].uses.push_back({});
      }
  }

  void follow_pass(action const& a) {
    if (reads_values(a.pass)) read_values(a);
    if (adds_gradients(a.pass)) add_gradients(a);
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

  /// Ends the check, after the last action.
  void end() {
    for (auto const& buffer : values_)
      order_.expect(!buffer.open || buffer.stays, step_flaw::missing);
    for (std::size_t i = 0; i < units_.size(); ++i) {
      auto const& planned = plan_.units[i];
      bool const updates = order_.trains() && planned.gradient_bytes > 0;
      bool const gathers =
          planned.is_gathered && (plan_.gathers == gather_time::before_use ||
                                  (plan_.gathers == gather_time::after_update && updates));
      order_.expect(!updates || order_.has_run(units_[i].updated), step_flaw::missing);
      order_.expect(!gathers || order_.has_run(units_[i].gathered), step_flaw::missing);
    }
  }

 private:
  static constexpr int none = step_order::none;

  struct use_state {
    std::optional<int> buffer = {};  // the buffer of its values, when they stay
    int scattered = 0;               // reduced microbatches
    int reduced = none;
  };
  struct unit_state {
    std::vector<use_state> uses = {};
    int prepared = none, joined = none, tied = none, measured = none, begun = none,
        exchanged = none, updated = none, gathered = none;
  };
  struct part_state {
    /// Units, and the number of the use of each.
    std::vector<std::pair<std::size_t, std::size_t>> uses = {};
    int added = 0;  // microbatches whose gradients were added
    int last_added = none;
    int leaf = none;  // the microbatch whose leaf is open
    int leaves = 0;
    int finished = none;  // the action that summed its trees
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
    int waiting = 0;  // uses whose gradients have not been reduced
    int added = none;
    int number = 0;  // number of the microbatch among those added, from 1
  };

  part_state& part_state_of(part p) { return parts_[static_cast<std::size_t>(p - first_part_)]; }
  unit_state& unit(action const& a) { return units_[static_cast<std::size_t>(a.unit.value())]; }
  planned_unit const& planned(action const& a) const { return plan_.unit_of(a); }

  /// Checks that sharded values are all in the buffer that the pass names, or in their unit's own
  /// buffer, and that whole values are those that the previous step has changed.
  void read_values(action const& a) {
    int in_buffer = 0;
    for (auto const& [number, use] : part_state_of(a.model_part).uses) {
      if (plan_.units[number].is_gathered && plan_.gathers == gather_time::before_use)
        order_.expect(order_.has_run(units_[number].gathered), step_flaw::stale);
      if (plan_.units[number].values == 0) continue;
      if (auto const own_buffer = units_[number].uses[use].buffer)
        order_.read(values_[static_cast<std::size_t>(*own_buffer)]);
      else
        ++in_buffer;
    }
    if (in_buffer == 0) return;
    if (!a.buffer) return order_.report(step_flaw::absent);
    auto& buffer = values_[static_cast<std::size_t>(*a.buffer)];
    order_.expect(buffer.open && buffer.tenant == a.model_part && buffer.uses == in_buffer,
                  step_flaw::absent);
    order_.read(buffer);
  }
  void follow_unshard(action const& a) {
    auto& buffer = values_[static_cast<std::size_t>(a.buffer.value())];
    bool const stays = !a.use;
    order_.expect(
        planned(a).is_used_by(a.model_part) && planned(a).values > 0 &&
            (stays || planned(a).parts[static_cast<std::size_t>(a.use.value())] == a.model_part),
        step_flaw::out_of_order);
    if (buffer.open) {
      order_.expect(!stays && buffer.tenant == a.model_part, step_flaw::race);
    } else {
      order_.write(buffer, none);
      buffer.open = true;
      buffer.stays = stays;
      buffer.used = buffer.uses = 0;
      buffer.tenant = a.model_part;
    }
    buffer.used += planned(a).values;
    ++buffer.uses;
    buffer.written = order_.current();
    order_.expect(buffer.used <= plan_.values[static_cast<std::size_t>(a.buffer.value())],
                  step_flaw::race);
    if (stays)
      for (auto& use : unit(a).uses) use.buffer = a.buffer;
  }
  void follow_reshard(action const& a) {
    auto& buffer = values_[static_cast<std::size_t>(a.buffer.value())];
    order_.expect(buffer.open && buffer.tenant == a.model_part, step_flaw::out_of_order);
    order_.read(buffer);
    buffer.open = false;
  }

  [[nodiscard]] bool scatters(part p) {
    return std::ranges::any_of(part_state_of(p).uses, [&](auto const& use) {
      return plan_.units[use.first].gradients > 0;
    });
  }

  void follow_begin(action const& a) {
    auto& state = part_state_of(a.model_part);
    if (!a.buffer) {
      order_.expect(state.leaf == none && state.leaves == state.added, step_flaw::out_of_order);
      state.leaf = a.task.microbatch;
      return;
    }
    auto& buffer = gradients_[static_cast<std::size_t>(*a.buffer)];
    order_.expect(buffer.waiting == 0, step_flaw::race);
    order_.write(buffer, a.task.microbatch);
    buffer.tenant = a.model_part;
    buffer.added = none;
    for (auto const& [number, use] : state.uses)
      if (plan_.units[number].gradients > 0) ++buffer.waiting;
  }
  void add_gradients(action const& a) {
    auto& state = part_state_of(a.model_part);
    order_.expect(a.first == (state.added == 0), step_flaw::stale);
    if (scatters(a.model_part)) {
      gradient_buffer* buffer_of_task = nullptr;
      for (auto& candidate : gradients_)
        if (candidate.waiting > 0 && candidate.tenant == a.model_part &&
            candidate.holds == a.task.microbatch)
          buffer_of_task = &candidate;
      if (buffer_of_task == nullptr || buffer_of_task->added != none)
        return order_.report(step_flaw::absent);
      order_.expect(order_.is_complete(buffer_of_task->written), step_flaw::race);
      buffer_of_task->written = buffer_of_task->added = order_.current();
      buffer_of_task->number = state.added + 1;
    }
    if (state.leaves != 0 || state.leaf != none)
      order_.expect(state.leaf == a.task.microbatch, step_flaw::absent);
    for (auto const& [number, use] : state.uses) {
      if (plan_.units[number].gradient_bytes > 0)
        order_.expect(order_.has_run(units_[number].prepared), step_flaw::absent);
      if (plan_.units[number].is_joined)
        for (part const other : plan_.units[number].parts)
          order_.expect(order_.is_complete(part_state_of(other).last_added), step_flaw::race);
    }
    order_.expect(order_.is_complete(state.last_added), step_flaw::race);
    state.last_added = order_.current();
    ++state.added;
  }
  void follow_leaf(action const& a) {
    auto& state = part_state_of(a.model_part);
    order_.expect(state.leaf == a.task.microbatch && state.added == state.leaves + 1,
                  step_flaw::out_of_order);
    order_.expect(order_.is_complete(state.last_added), step_flaw::race);
    state.leaf = none;
    ++state.leaves;
  }
  void follow_tree(action const& a) {
    order_.expect(part_state_of(a.model_part).leaves == plan_.microbatches &&
                      part_state_of(a.model_part).finished == none,
                  step_flaw::unreduced);
    part_state_of(a.model_part).finished = order_.current();
  }
  void follow_scatter(action const& a) {
    auto& buffer = gradients_[static_cast<std::size_t>(a.buffer.value())];
    auto& use = unit(a).uses[static_cast<std::size_t>(a.use.value())];
    order_.expect(
        buffer.waiting > 0 && buffer.tenant == a.model_part && buffer.holds == a.task.microbatch,
        step_flaw::reduced_twice);
    order_.expect(buffer.added != none, step_flaw::unreduced);
    order_.read(buffer);
    bool is_first = use.scattered == 0;
    if (planned(a).is_joined)
      for (auto const& other : unit(a).uses) is_first = is_first && other.scattered == 0;
    order_.expect(a.first == is_first, step_flaw::stale);
    // the next microbatch may have begun already, with another buffer
    order_.expect(use.scattered + 1 == buffer.number, step_flaw::reduced_twice);
    ++use.scattered;
    --buffer.waiting;
  }

  void follow_reduce(action const& a) {
    order_.expect(!a.bucket.empty(), step_flaw::absent);
    for (auto const& member : a.bucket) {
      auto const& planned = plan_.units[static_cast<std::size_t>(member.unit)];
      auto& uses = units_[static_cast<std::size_t>(member.unit)].uses;
      for (std::size_t i = 0; i < uses.size(); ++i)
        if (planned.is_joined || i == static_cast<std::size_t>(member.use))
          reduce_use(planned, planned.parts[i], uses[i]);
    }
  }
  void reduce_use(planned_unit const& planned, part p, use_state& use) {
    auto const& state = part_state_of(p);
    order_.expect(use.reduced == none, step_flaw::reduced_twice);
    order_.expect(state.added == plan_.microbatches, step_flaw::unreduced);
    order_.expect(planned.gradients == 0 || use.scattered == plan_.microbatches,
                  step_flaw::unreduced);
    order_.expect(state.leaves == 0 || order_.has_run(state.finished), step_flaw::unreduced);
    order_.expect(order_.is_complete(state.last_added), step_flaw::race);
    use.reduced = order_.current();
  }

  /// Checks the actions after the passes: each unit has each of them once, after what it needs.
  void follow_update(action const& a) {
    using enum action_kind;
    auto const expect_once = [&](int& action_number, bool ready, step_flaw flaw) {
      order_.expect(action_number == none, step_flaw::out_of_order);
      order_.expect(ready, flaw);
      action_number = order_.current();
    };
    auto const all_trained = [&](auto&& predicate) {
      for (std::size_t i = 0; i < units_.size(); ++i)
        if (plan_.units[i].gradient_bytes > 0 && !predicate(i)) return false;
      return true;
    };
    if (a.kind == reduce_scalars) {
      order_.expect(order_.all_complete(), step_flaw::race);
      return expect_once(
          scalars_, all_trained([&](std::size_t i) { return order_.has_run(units_[i].measured); }),
          step_flaw::unreduced);
    }
    if (a.kind == clip) return expect_once(clipped_, order_.has_run(scalars_), step_flaw::race);
    auto& u = unit(a);
    switch (a.kind) {
      case prepare: return expect_once(u.prepared, order_.begun() == none, step_flaw::out_of_order);
      case join_uses:
        return expect_once(
            u.joined,
            std::ranges::all_of(u.uses, [&](auto& use) { return order_.has_run(use.reduced); }),
            step_flaw::unreduced);
      case reduce_tied:
        return expect_once(u.tied, order_.has_run(u.joined) && planned(a).is_tied, step_flaw::race);
      case measure:
        return expect_once(
            u.measured, order_.has_run(u.joined) && (!planned(a).is_tied || order_.has_run(u.tied)),
            step_flaw::unreduced);
      case begin_update:
        order_.write(workspace_, a.unit.value());
        return expect_once(
            u.begun,
            order_.has_run(clipped_) && order_.has_run(u.measured) && planned(a).exchanges_update,
            step_flaw::race);
      case exchange_update:
        follow_workspace(a);
        order_.write(workspace_, a.unit.value());
        return expect_once(u.exchanged, order_.has_run(u.begun), step_flaw::race);
      case update:
        if (planned(a).exchanges_update) {
          follow_workspace(a);
          order_.expect(order_.has_run(u.exchanged), step_flaw::unreduced);
        }
        return expect_once(u.updated, order_.has_run(clipped_) && order_.has_run(u.measured),
                           step_flaw::race);
      case gather:
        order_.expect(planned(a).is_gathered && plan_.gathers != gather_time::none,
                      step_flaw::out_of_order);
        return expect_once(u.gathered,
                           plan_.gathers == gather_time::before_use ? u.updated == none
                                                                    : order_.has_run(u.updated),
                           step_flaw::race);
      default: order_.report(step_flaw::out_of_order);
    }
  }

  /// Checks that the workspace holds what the unit's optimizers have put there.
  void follow_workspace(action const& a) {
    order_.read(workspace_);
    order_.expect(workspace_.holds == a.unit, step_flaw::stale);
  }

  step_order& order_;
  step_plan const& plan_;
  checked_memory workspace_;  // workspace of optimizers
  std::vector<value_buffer> values_;
  std::vector<gradient_buffer> gradients_;
  std::vector<unit_state> units_;
  std::vector<part_state> parts_;  // by part, from first_part_ on
  part first_part_ = std::numeric_limits<part>::max();
  int scalars_ = none, clipped_ = none;
};

}  // namespace parallel::train::detail
