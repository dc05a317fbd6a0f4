// step_check_passes: that every pass of a rank's list comes once and after what it needs, and finds
// in its memory what it looks for: at the edges of stages, in what forward passes keep, and where
// passes beside each other take turns.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <parallel/train/parts.hpp>
#include <parallel/train/step_order.hpp>

namespace parallel::train::detail {

class step_check_passes {
 public:
  explicit step_check_passes(step_order& order) : order_(order), of_(order.plan()) {
    for (std::size_t k = 0; k < of_.stages.size(); ++k) {
      auto const slots = static_cast<std::size_t>(of_.memory[k].slots);
      auto const boundaries = static_cast<std::size_t>(of_.memory[k].boundaries);
      chunks_.push_back({{boundaries}, {boundaries}, {slots}, {slots}, {slots}});
      auto const& range = of_.stages[k];
      tasks_.insert(tasks_.end(), static_cast<std::size_t>(of_.microbatches),
                    {range.front(), range.end - 1, range.end - 1});
    }
  }

  void follow_pass(action const& a) {
    using enum pass_kind;
    auto& state = microbatch_task(a);
    auto const& range = of_.stages[of_.chunk_of(a.at)];
    bool const blocks = a.of != embed && a.of < range.end;
    if (a.does == join) {
      order_.expect(state.weight_made != none && a.of == state.weight + 1, step_flaw::out_of_order);
      order_.expect(order_.over(state.weight_made), step_flaw::race);
      state.weight_made = none;
      return;
    }
    if (a.does == forward || a.does == forward_backward) {
      order_.expect(a.of == state.forward && range.holds(a.of), step_flaw::out_of_order);
      order_.expect(
          (a.does == forward_backward) == (order_.trains() && !blocks && a.of == range.end),
          step_flaw::out_of_order);
      ++state.forward;
    } else {
      order_.expect(order_.trains() && state.forward > range.back(), step_flaw::out_of_order);
      if (a.does == backward_input || a.does == backward) {
        order_.expect(a.of == state.input && blocks, step_flaw::out_of_order);
        --state.input;
        state.input_made = order_.now();
      }
      if (a.does == backward_weight || a.does == backward) {
        order_.expect(a.of == state.weight && state.input < std::max(a.of, range.begin),
                      step_flaw::out_of_order);
        order_.expect(order_.over(state.input_made), step_flaw::race);
        order_.expect(state.weight_made == none, step_flaw::race);
        if (a.on == lane::weights) state.weight_made = order_.now();
        state.weight = a.of == range.begin && range.entry ? embed : a.of - 1;
      }
    }
    if (a.on == lane::compute) {
      order_.expect(order_.over(state.last), step_flaw::race);
      state.last = order_.now();
    }
    if (!order_.good()) return;
    follow_scratch(a, range);
    follow_edges_of_pass(a, range);
  }

  void follow_edge(action const& a) {
    using enum pipeline::step_kind;
    auto& own = chunk(a.at.stage);
    int const m = a.at.microbatch;
    switch (a.edge) {
      case receive_activation: return take_boundary(own, a);
      case send_activation: return order_.read(own.output, a.at.slot, m);
      case receive_gradient:  // what lay there before, in whatever shape, is over
        order_.expect(order_.over(own.kept[static_cast<std::size_t>(a.at.slot)].written),
                      step_flaw::race);
        order_.expect(own.kept[static_cast<std::size_t>(a.at.slot)].holds == m, step_flaw::stale);
        return order_.write(own.output_gradient, a.at.slot, m);
      case send_gradient: return order_.read(own.input_gradient, a.at.boundary, m);
      case copy_activation:
        order_.read(chunk(a.at.stage - 1).output, of_.below(a.at).slot, m);
        return take_boundary(own, a);
      case copy_gradient:
        order_.read(own.input_gradient, a.at.boundary, m);
        return order_.write(chunk(a.at.stage - 1).output_gradient, of_.below(a.at).slot, m);
      case compute: return order_.blame(step_flaw::out_of_order);
    }
  }
  /// After the last action.
  void end() {
    for (std::size_t k = 0; k < of_.stages.size(); ++k)
      for (int m = 0; m < of_.microbatches; ++m) {
        auto const& range = of_.stages[k];
        auto const& state =
            tasks_[k * static_cast<std::size_t>(of_.microbatches) + static_cast<std::size_t>(m)];
        order_.expect(state.forward > range.back(), step_flaw::missing);
        if (order_.trains())
          order_.expect(state.input < range.begin && state.weight < range.front() &&
                            state.weight_made == none,
                        step_flaw::missing);
      }
  }

 private:
  static constexpr int none = step_order::none;

  struct chunk_memory {
    checked_memories input, input_gradient, kept, output, output_gradient;
  };
  struct task_state {
    part forward, input, weight;  // the next part of each
    int last = none;              // the last pass that made something of it
    int input_made = none;        // the last that made an input's gradient
    int weight_made = none;       // a weights' gradient on a stream of its own, until it is joined
  };

  task_state& microbatch_task(action const& a) {
    return tasks_[of_.chunk_of(a.at) * static_cast<std::size_t>(of_.microbatches) +
                  static_cast<std::size_t>(a.at.microbatch)];
  }
  chunk_memory& chunk(int stage) { return chunks_[static_cast<std::size_t>(stage / of_.ranks)]; }

  /// Where passes put what they need on their way, and what they hand on beside each other.
  void follow_scratch(action const& a, stage_range const& range) {
    if (!a.beside) {
      for (auto& place : scratch_) order_.write(place, none);
      return;
    }
    auto const before = static_cast<std::size_t>(range.end - 1 - a.of);  // blocks of this pass
    auto& scratch = scratch_[before % turns::scratch];
    auto& gradient = handed_[before % turns::handed];
    order_.read(gradient);
    order_.expect(before == 0 || gradient.holds == static_cast<int>(a.of + 1), step_flaw::stale);
    if (a.does == pass_kind::backward_input) {
      order_.write(scratch, static_cast<int>(a.of));
      if (a.of > range.begin || range.entry)
        order_.write(handed_[(before + 1) % turns::handed], static_cast<int>(a.of));
    } else {
      order_.read(scratch);
      order_.expect(scratch.holds == static_cast<int>(a.of), step_flaw::stale);
    }
  }

  /// The activations at the edges of a stage, and what it keeps.
  void follow_edges_of_pass(action const& a, stage_range const& range) {
    using enum pass_kind;
    auto& own = chunk(a.at.stage);
    int const m = a.at.microbatch;
    bool const goes_forward = a.does == forward || a.does == forward_backward;
    bool const below = !range.entry;  // another stage is before this one
    if (below && a.of == range.begin) order_.read(own.input, a.at.boundary, m);
    if (goes_forward && a.of == range.front())
      order_.write(own.kept, a.at.slot, m);
    else
      order_.read(own.kept, a.at.slot, m);
    if (goes_forward && a.of == range.back() && !range.exit) order_.write(own.output, a.at.slot, m);
    if (goes_forward) return;
    if (a.of == range.end - 1 && !range.exit) order_.read(own.output_gradient, a.at.slot, m);
    if (below && a.of == range.begin && a.does != backward_weight)
      order_.write(own.input_gradient, a.at.boundary, m);
  }

  /// The input arrives in a boundary buffer, where nothing of the microbatch before is in use.
  void take_boundary(chunk_memory& own, action const& a) {
    order_.write(own.input, a.at.boundary, a.at.microbatch);
    if (!order_.good()) return;
    order_.write(own.input_gradient[static_cast<std::size_t>(a.at.boundary)], none);
  }

  step_order& order_;
  step_plan const& of_;
  std::vector<chunk_memory> chunks_;
  std::vector<task_state> tasks_;  // by chunk, then microbatch
  std::array<checked_memory, turns::scratch> scratch_ = {};
  std::array<checked_memory, turns::handed> handed_ = {};
};

}  // namespace parallel::train::detail
