// stepper_program: what a stepper does for each action of a step's plan (step_plan.hpp); run_step
// calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/device/as_graph.hpp>
#include <parallel/train/results/clip_gradients.hpp>
#include <parallel/train/results/tensor_squares.hpp>
#include <parallel/train/step/run_step.hpp>
#include <parallel/train/step/step_passes.hpp>
#include <parallel/train/step_limits.hpp>
#include <parallel/zero/reduce.hpp>
#include <parallel/zero/update.hpp>

namespace parallel::train {

/// The program that a step's plan runs: passes, and everything that depends on them.
template <class State>
class stepper_program : public step_passes<typename State::model_type> {
 public:
  using stream = typename State::stream;
  using exchange_stream = typename State::exchange_stream;
  using meter_type = tensor_squares_meter<typename State::element>;

  /// `meter` measures every tensor; null: none is measured. `passes_only`: nothing is reduced or
  /// updated. `passes`: the arguments of step_passes.
  template <class... Arguments>
  stepper_program(State& state, stream& compute, exchange_stream* reductions, meter_type* meter,
                  bool passes_only, Arguments&&... passes)
      : step_passes<typename State::model_type>(std::forward<Arguments>(passes)...),
        state_(state),
        main_(compute),
        exchanges_(reductions),
        meter_(meter),
        passes_only_(passes_only) {}

  void compute(action const& a, stream& queue) {
    using enum action_kind;
    auto& set = state_.placed.set();
    bool const empty = this->is_empty(a.task.microbatch);
    auto* const check = state_.check;
    if (passes_only_ && follows_passes(a.kind)) return;
    switch (a.kind) {
      case pass: {
        if (a.buffer) set.bind_values(a.model_part, *a.buffer);
        [[maybe_unused]] auto const named = annotate(queue, [&] {
          return concat(to_string(a.pass), " of part ", a.model_part, ", microbatch ",
                        a.task.microbatch);
        });
        if (empty) return;
        this->run(a, queue);
        return check != nullptr ? check->observe_pass(a, queue) : void();
      }
      case begin_gradients: return set.begin_gradients(a.model_part, a.buffer, empty, queue);
      case end_gradients: return empty ? void() : set.end_gradients(a.model_part, queue);
      case finish_tree: return set.finish_trees(a.model_part, queue);
      case prepare:
        if (this->is_empty(0)) return unit(a).memory.clear_gradients(queue);
        if (!unit(a).memory.gradients_sharded() && !state_.by_tree())
          unit(a).memory.prepare_gradients(queue);
        return;
      case join_uses: return unit(a).memory.join_uses(queue);
      case measure: return state_.results.norm.add(unit(a).memory, queue);
      case clip:
        if (state_.options.keep_finite || state_.limits.has_limit())
          state_.outcome = state_.results.judge(queue, state_.limits);
        if (has_overflowed(queue)) state_.outcome = step_outcome::overflowed;
        if (check != nullptr && !check->agree(queue, *exchanges_))
          state_.outcome = step_outcome::corrupted;
        if (!updates()) return;
        clip_parts(queue);
        return state_.results.enqueue_scale(queue, state_.options.clip.norm_threshold());
      case begin_update: return updates() ? this->begin_update(unit(a), queue) : void();
      case action_kind::update:
        if (!updates()) return;
        if (!state_.placed.plans().units()[static_cast<std::size_t>(*a.unit)].exchanges_update)
          this->begin_update(unit(a), queue);
        return update_unit(unit(a), queue);
      default: return;  // begin, reshard and end only mark points for other streams
    }
  }

  void exchange(action const& a, exchange_stream& queue, typename State::requests_type& requests) {
    using enum action_kind;
    if (passes_only_ && follows_passes(a.kind)) return;
    switch (a.kind) {
      case unshard:
        return state_.placed.set().unshard(unit(a), a.use, *a.buffer, axes(unit(a)), queue,
                                           requests);
      case reduce_scatter:
        return state_.placed.set().reduce_scatter(unit(a), static_cast<std::size_t>(*a.use),
                                                  *a.buffer, a.first, axes(unit(a)), queue);
      case reduce: return reduce_bucket(a, queue, requests);
      case reduce_tied: return state_.placed.reduce_tied(unit(a), queue, requests);
      case exchange_update:
        return updates() ? this->exchange_update(unit(a), queue, requests) : void();
      case reduce_scalars: return state_.results.exchange(state_.groups.world(), main_, queue);
      default: return unit(a).memory.gather(axes(unit(a)), queue, requests);
    }
  }

  [[nodiscard]] bool updates() const { return state_.outcome == step_outcome::updated; }

  [[nodiscard]] typename State::unit_entry& unit(action const& a) const {
    return state_.placed.units()[static_cast<std::size_t>(a.unit.value())];
  }

 private:
  [[nodiscard]] bool has_overflowed([[maybe_unused]] stream& queue) const {
    if constexpr (requires { this->model().may_overflow(); })
      if (this->model().may_overflow()) {
        queue.synchronize();
        return this->model().has_overflowed(state_.results.record());
      }
    return false;
  }
  [[nodiscard]] auto axes(typename State::unit_entry const& entry) const {
    return state_.groups.axes(entry.memory.layout().expert_ranks());
  }
  void reduce_bucket(action const& a, exchange_stream& queue,
                     typename State::requests_type& requests) {
    std::vector<zero::unit_gradients<typename State::element>> members;
    for (auto const& [unit, use] : a.bucket)
      members.push_back({&state_.placed.units()[static_cast<std::size_t>(unit)].memory,
                         static_cast<std::size_t>(use)});
    auto const& first = state_.placed.units()[static_cast<std::size_t>(a.bucket.front().unit)];
    zero::reduce<typename State::element>(members, axes(first), queue, requests);
  }
  /// Clips the gradients by rules that are not one common factor. The host waits for the number of
  /// tokens.
  void clip_parts([[maybe_unused]] stream& queue) {
    if constexpr (!std::is_integral_v<typename State::gradient_type>)
      train::clip_parts(
          state_.options.clip, state_.options.order, state_.placed.units(), state_.placed.tensors(),
          state_.device, state_.groups.world(), queue, *exchanges_, [this] {
            return state_.results.result(state_.options.clip.norm_threshold()).sums.tokens;
          });
  }
  [[nodiscard]] auto optimizers() const { return std::span(std::as_const(state_.optimizers)); }
  [[nodiscard]] step_info<typename State::gradient_type> info() const {
    auto const& now = this->request().position;
    return {std::int64_t{now.updates.value_or(now.step)} + 1, this->request().learning_rate_factor,
            state_.results.scale()};
  }
  void begin_update(typename State::unit_entry const& entry, stream& queue) {
    zero::begin_update(entry.memory, queue, optimizers(), state_.placed.set().workspace(), info());
  }
  void exchange_update(typename State::unit_entry const& entry, exchange_stream& queue,
                       typename State::requests_type& requests) {
    zero::exchange_update(entry.memory, axes(entry).for_updates(state_.groups.tensor.size()), queue,
                          optimizers(), state_.placed.set().workspace(), requests);
  }
  void update_unit(typename State::unit_entry const& entry, stream& queue) {
    [[maybe_unused]] auto const named = annotate(queue, [] { return std::string("optimizer"); });
    if (meter_ != nullptr) meter_->measure_before(entry.memory, queue, state_.device);
    zero::update(entry.memory, queue, optimizers(), state_.placed.set().workspace(), info());
    if (meter_ != nullptr) meter_->measure_after(entry.memory, queue);
  }

  State& state_;
  stream& main_;
  exchange_stream* exchanges_;
  meter_type* meter_;
  bool passes_only_;
};

}  // namespace parallel::train
