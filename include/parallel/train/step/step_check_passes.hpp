// step_check_passes: checks that every pass of a rank's list runs once, runs after what it needs,
// and finds its data in memory: at the edges of stages, in what forward passes keep, and in the
// buffers between which overlapped passes alternate.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <parallel/train/parts.hpp>
#include <parallel/train/step/step_order.hpp>

namespace parallel::train::detail {

class step_check_passes {
 public:
  explicit step_check_passes(step_order& order) : order_(order), plan_(order.plan()) {
    for (std::size_t k = 0; k < plan_.stages.size(); ++k) {
      auto const slots = static_cast<std::size_t>(plan_.memory[k].slots);
      auto const boundaries = static_cast<std::size_t>(plan_.memory[k].boundaries);
      chunks_.push_back({{boundaries}, {boundaries}, {slots}, {slots}, {slots}});
      auto const& range = plan_.stages[k];
      tasks_.insert(tasks_.end(), static_cast<std::size_t>(plan_.microbatches),
                    {range.front(), range.end - 1, range.end - 1});
    }
  }

  void follow_pass(action const& a) {
    using enum pass_kind;
    auto& state = microbatch_task(a);
    auto const& range = plan_.stages[plan_.chunk_of(a.task)];
    bool const is_block = a.model_part != embed && a.model_part < range.end;
    if (a.pass == join) {
      order_.expect(state.weight_made != none && a.model_part == state.weight + 1,
                    step_flaw::out_of_order);
      order_.expect(order_.is_complete(state.weight_made), step_flaw::race);
      state.weight_made = none;
      return;
    }
    if (a.pass == forward || a.pass == forward_backward) {
      order_.expect(a.model_part == state.forward && range.holds(a.model_part),
                    step_flaw::out_of_order);
      order_.expect((a.pass == forward_backward) ==
                        (order_.trains() && !is_block && a.model_part == range.end),
                    step_flaw::out_of_order);
      ++state.forward;
    } else {
      order_.expect(order_.trains() && state.forward > range.back(), step_flaw::out_of_order);
      if (a.pass == backward_input || a.pass == backward) {
        order_.expect(a.model_part == state.input && is_block, step_flaw::out_of_order);
        --state.input;
        state.input_made = order_.current();
      }
      if (a.pass == backward_weight || a.pass == backward) {
        order_.expect(
            a.model_part == state.weight && state.input < std::max(a.model_part, range.begin),
            step_flaw::out_of_order);
        order_.expect(order_.is_complete(state.input_made), step_flaw::race);
        order_.expect(state.weight_made == none, step_flaw::race);
        if (a.lane == lane::weights) state.weight_made = order_.current();
        state.weight = a.model_part == range.begin && range.entry ? embed : a.model_part - 1;
      }
    }
    if (a.lane == lane::compute) {
      order_.expect(order_.is_complete(state.last), step_flaw::race);
      state.last = order_.current();
    }
    if (!order_.good()) return;
    follow_scratch(a, range);
    follow_edges_of_pass(a, range);
  }

  void follow_edge(action const& a) {
    using enum pipeline::step_kind;
    auto& stage = chunk(a.task.stage);
    int const m = a.task.microbatch;
    switch (a.edge) {
      case receive_activation: return take_boundary(stage, a);
      case send_activation: return order_.read(stage.output, a.task.slot, m);
      case receive_gradient:  // whatever lay there, in whatever shape, is not used any more
        order_.expect(
            order_.is_complete(stage.saved[static_cast<std::size_t>(a.task.slot)].written),
            step_flaw::race);
        order_.expect(stage.saved[static_cast<std::size_t>(a.task.slot)].holds == m,
                      step_flaw::stale);
        return order_.write(stage.output_gradient, a.task.slot, m);
      case send_gradient: return order_.read(stage.input_gradient, a.task.boundary, m);
      case copy_activation:
        order_.read(chunk(a.task.stage - 1).output, plan_.previous_stage_task(a.task).slot, m);
        return take_boundary(stage, a);
      case copy_gradient:
        order_.read(stage.input_gradient, a.task.boundary, m);
        return order_.write(chunk(a.task.stage - 1).output_gradient,
                            plan_.previous_stage_task(a.task).slot, m);
      case compute: return order_.report(step_flaw::out_of_order);
    }
  }
  /// Ends the check, after the last action.
  void end() {
    for (std::size_t k = 0; k < plan_.stages.size(); ++k)
      for (int m = 0; m < plan_.microbatches; ++m) {
        auto const& range = plan_.stages[k];
        auto const& state =
            tasks_[k * static_cast<std::size_t>(plan_.microbatches) + static_cast<std::size_t>(m)];
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
    checked_memories input, input_gradient, saved, output, output_gradient;
  };
  struct task_state {
    part forward, input, weight;  // the next part of each kind of pass
    int last = none;              // the last pass that made something of the microbatch
    int input_made = none;        // the last pass that made an input's gradient
    int weight_made = none;       // a weight gradient on a stream of its own, until it is joined
  };

  task_state& microbatch_task(action const& a) {
    return tasks_[plan_.chunk_of(a.task) * static_cast<std::size_t>(plan_.microbatches) +
                  static_cast<std::size_t>(a.task.microbatch)];
  }
  chunk_memory& chunk(int stage) { return chunks_[static_cast<std::size_t>(stage / plan_.ranks)]; }

  /// Follows scratch memory, and the gradients that overlapped passes of blocks give each other.
  void follow_scratch(action const& a, stage_range const& range) {
    if (!a.is_overlapped) {
      for (auto& scratch : scratch_) order_.write(scratch, none);
      return;
    }
    auto const blocks_done = static_cast<std::size_t>(
        range.end - 1 - a.model_part);  //  blocks of this backward pass that have run
    auto& scratch = scratch_[blocks_done % alternating_buffers::scratch];
    auto& gradient = passed_gradients_[blocks_done % alternating_buffers::gradients];
    order_.read(gradient);
    order_.expect(blocks_done == 0 || gradient.holds == static_cast<int>(a.model_part + 1),
                  step_flaw::stale);
    if (a.pass == pass_kind::backward_input) {
      order_.write(scratch, static_cast<int>(a.model_part));
      if (a.model_part > range.begin || range.entry)
        order_.write(passed_gradients_[(blocks_done + 1) % alternating_buffers::gradients],
                     static_cast<int>(a.model_part));
    } else {
      order_.read(scratch);
      order_.expect(scratch.holds == static_cast<int>(a.model_part), step_flaw::stale);
    }
  }

  /// Follows the activations at the edges of a stage, and what the stage keeps.
  void follow_edges_of_pass(action const& a, stage_range const& range) {
    using enum pass_kind;
    auto& stage = chunk(a.task.stage);
    int const m = a.task.microbatch;
    bool const goes_forward = a.pass == forward || a.pass == forward_backward;
    bool const has_previous = !range.entry;  // another stage precedes this one
    if (has_previous && a.model_part == range.begin) order_.read(stage.input, a.task.boundary, m);
    if (goes_forward && a.model_part == range.front())
      order_.write(stage.saved, a.task.slot, m);
    else
      order_.read(stage.saved, a.task.slot, m);
    if (goes_forward && a.model_part == range.back() && !range.exit)
      order_.write(stage.output, a.task.slot, m);
    if (goes_forward) return;
    if (a.model_part == range.end - 1 && !range.exit)
      order_.read(stage.output_gradient, a.task.slot, m);
    if (has_previous && a.model_part == range.begin && a.pass != backward_weight)
      order_.write(stage.input_gradient, a.task.boundary, m);
  }

  /// The input arrives in a boundary buffer, which the previous microbatch does not use any more.
  void take_boundary(chunk_memory& stage, action const& a) {
    order_.write(stage.input, a.task.boundary, a.task.microbatch);
    if (!order_.good()) return;
    order_.write(stage.input_gradient[static_cast<std::size_t>(a.task.boundary)], none);
  }

  step_order& order_;
  step_plan const& plan_;
  std::vector<chunk_memory> chunks_;
  std::vector<task_state> tasks_;  // by chunk, then microbatch
  std::array<checked_memory, alternating_buffers::scratch> scratch_ = {};
  std::array<checked_memory, alternating_buffers::gradients> passed_gradients_ = {};
};

}  // namespace parallel::train::detail
