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

#include <parallel/device/annotate.hpp>
#include <parallel/train/results/clip_gradients.hpp>
#include <parallel/train/results/tensor_squares.hpp>
#include <parallel/train/step/run_step.hpp>
#include <parallel/train/step/step_passes.hpp>
#include <parallel/train/step_limits.hpp>
#include <parallel/zero/reduce.hpp>
#include <parallel/zero/update.hpp>

namespace parallel::train {

/// The terms of one step with elements T, besides its microbatches.
template <class T>
struct step_update {
  std::uint32_t step = 0;
  double learning_rate_factor = 1;
  tensor_squares_meter<T>* meter = nullptr;  // measures every tensor; null: none is measured
};

/// The program that a step's plan runs: passes, and everything that depends on them.
template <class Stepper>
struct stepper_program : step_passes<typename Stepper::model_type> {
  using stream = typename Stepper::stream;
  using exchange_stream = typename Stepper::exchange_stream;
  using update = step_update<typename Stepper::element>;

  template <class... Arguments>
  stepper_program(Stepper& owner, stream& compute, exchange_stream* reductions, update const& terms,
                  Arguments&&... passes)
      : step_passes<typename Stepper::model_type>(std::forward<Arguments>(passes)...),
        stepper_(owner),
        main(compute),
        exchanges(reductions),
        terms_(terms) {}

  Stepper& stepper_;
  stream& main;
  exchange_stream* exchanges;
  update const& terms_;

  void compute(action const& a, stream& queue) {
    using enum action_kind;
    auto& set = stepper_.placed_.set();
    bool const empty = this->is_empty(a.task.microbatch);
    auto* const check = stepper_.checked_by_;
    if (check != nullptr && check->runs_passes_only() && follows_passes(a.kind)) return;
    switch (a.kind) {
      case pass: {
        if (a.buffer >= 0) set.bind_values(a.model_part, a.buffer);
        [[maybe_unused]] auto const named = annotate(queue, [&] {
          return concat(name_of(a.pass), " of part ", a.model_part, ", microbatch ",
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
        if (!unit(a).memory.gradients_sharded() && !stepper_.by_tree())
          unit(a).memory.prepare_gradients(queue);
        return;
      case join_uses: return unit(a).memory.join_uses(queue);
      case measure: return stepper_.results_.norm.add(unit(a).memory, queue);
      case clip:
        if (stepper_.options_.keep_finite || stepper_.limits_.has_limit())
          stepper_.outcome_ = stepper_.results_.judge(queue, stepper_.limits_);
        if (check != nullptr && !check->agree(queue, *exchanges))
          stepper_.outcome_ = step_outcome::corrupted;
        if (!updates()) return;
        clip_parts(queue);
        return stepper_.results_.enqueue_scale(queue, stepper_.options_.clip.norm_threshold());
      case begin_update: return updates() ? this->begin_update(unit(a), queue) : void();
      case action_kind::update:
        if (!updates()) return;
        if (!stepper_.plans().units()[static_cast<std::size_t>(a.unit)].exchanges_update)
          this->begin_update(unit(a), queue);
        return update_unit(unit(a), queue);
      default: return;  // begin, reshard and end only mark points for other streams
    }
  }

  void exchange(action const& a, exchange_stream& queue,
                typename Stepper::requests_type& requests) {
    using enum action_kind;
    if (stepper_.checked_by_ != nullptr && stepper_.checked_by_->runs_passes_only() &&
        follows_passes(a.kind))
      return;
    auto const use = static_cast<std::size_t>(a.use);
    auto const axes = stepper_.groups_.axes();
    switch (a.kind) {
      case unshard:
        return stepper_.placed_.set().unshard(unit(a), a.use, a.buffer, axes, queue, requests);
      case reduce_scatter:
        return stepper_.placed_.set().reduce_scatter(unit(a), use, a.buffer, a.first, axes, queue);
      case reduce: return reduce_bucket(a, queue, requests);
      case reduce_tied: return stepper_.placed_.reduce_tied(unit(a), queue, requests);
      case exchange_update:
        return updates() ? this->exchange_update(unit(a), queue, requests) : void();
      case reduce_scalars: return stepper_.results_.exchange(stepper_.groups_.world(), main, queue);
      default: return unit(a).memory.gather(axes, queue, requests);
    }
  }

  [[nodiscard]] bool updates() const { return stepper_.outcome_ == step_outcome::updated; }

  [[nodiscard]] typename Stepper::unit_entry& unit(action const& a) const {
    return stepper_.placed_.units()[static_cast<std::size_t>(a.unit)];
  }

 private:
  void reduce_bucket(action const& a, exchange_stream& queue,
                     typename Stepper::requests_type& requests) {
    std::vector<zero::unit_gradients<typename Stepper::element>> members;
    for (auto const& [unit, use] : a.bucket)
      members.push_back({&stepper_.placed_.units()[static_cast<std::size_t>(unit)].memory,
                         static_cast<std::size_t>(use)});
    zero::reduce<typename Stepper::element>(members, stepper_.groups_.axes(), queue, requests);
  }
  /// Clips the gradients by rules that are not one common factor. The host waits for the number of
  /// tokens.
  void clip_parts([[maybe_unused]] stream& queue) {
    if constexpr (!std::is_integral_v<typename Stepper::gradient_type>)
      train::clip_parts(
          stepper_.options_.clip, stepper_.options_.order, stepper_.placed_.units(),
          stepper_.placed_.tensors(), stepper_.device_, stepper_.groups_.world(), queue, *exchanges,
          [this] {
            return stepper_.results_.result(stepper_.options_.clip.norm_threshold()).sums.tokens;
          });
  }
  [[nodiscard]] auto optimizers() const { return std::span(std::as_const(stepper_.optimizers_)); }
  [[nodiscard]] step_info<typename Stepper::gradient_type> info() const {
    return {std::int64_t{terms_.step} + 1, terms_.learning_rate_factor, stepper_.results_.scale()};
  }
  void begin_update(typename Stepper::unit_entry const& entry, stream& queue) {
    zero::begin_update(entry.memory, queue, optimizers(), stepper_.placed_.set().workspace(),
                       info());
  }
  void exchange_update(typename Stepper::unit_entry const& entry, exchange_stream& queue,
                       typename Stepper::requests_type& requests) {
    zero::exchange_update(entry.memory,
                          stepper_.groups_.axes().for_updates(stepper_.groups_.tensor.size()),
                          queue, optimizers(), stepper_.placed_.set().workspace(), requests);
  }
  void update_unit(typename Stepper::unit_entry const& entry, stream& queue) {
    [[maybe_unused]] auto const named = annotate(queue, [] { return std::string("optimizer"); });
    if (terms_.meter != nullptr)
      terms_.meter->measure_before(entry.memory, queue, stepper_.device_);
    zero::update(entry.memory, queue, optimizers(), stepper_.placed_.set().workspace(), info());
    if (terms_.meter != nullptr) terms_.meter->measure_after(entry.memory, queue);
  }
};

}  // namespace parallel::train
