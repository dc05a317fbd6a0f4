// stepper_program: what a stepper does for each action of a step's plan (step_plan.hpp), as
// run_step asks for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <parallel/device/annotate.hpp>
#include <parallel/train/clip_gradients.hpp>
#include <parallel/train/run_step.hpp>
#include <parallel/train/step_limits.hpp>
#include <parallel/train/step_passes.hpp>
#include <parallel/train/tensor_squares.hpp>
#include <parallel/zero/update.hpp>

namespace parallel::train {

/// Of one step with elements T, beside its microbatches.
template <class T>
struct step_update {
  std::uint32_t step = 0;
  double learning_rate_factor = 1;
  square_meter<T>* meter = nullptr;  // measures every tensor
};

/// What a step's plan runs: passes, and what hangs on them.
template <class Stepper>
struct stepper_program : step_passes<typename Stepper::model_type> {
  using stream = typename Stepper::stream;
  using exchange_stream = typename Stepper::exchange_stream;
  using update = step_update<typename Stepper::element>;

  template <class... Arguments>
  stepper_program(Stepper& of, stream& compute, exchange_stream* reductions, update const& how,
                  Arguments&&... passes)
      : step_passes<typename Stepper::model_type>(std::forward<Arguments>(passes)...),
        own(of),
        main(compute),
        exchanges(reductions),
        what(how) {}

  Stepper& own;
  stream& main;
  exchange_stream* exchanges;
  update const& what;

  void compute(action const& a, stream& on) {
    using enum action_kind;
    auto& set = own.placed_.set();
    bool const empty = this->is_empty(a.at.microbatch);
    auto* const check = own.checked_by_;
    if (check != nullptr && check->passes_alone() && follows_passes(a.kind)) return;
    switch (a.kind) {
      case pass: {
        if (a.buffer >= 0) set.bind_values(a.of, a.buffer);
        [[maybe_unused]] auto const named = annotate(on, [&] {
          return concat(name_of(a.does), " of part ", a.of, ", microbatch ", a.at.microbatch);
        });
        if (empty) return;
        this->run(a, on);
        return check != nullptr ? check->after(a, on) : void();
      }
      case begin_gradients: return set.begin_gradients(a.of, a.buffer, empty, on);
      case end_gradients: return empty ? void() : set.end_gradients(a.of, on);
      case finish_tree: return set.finish_trees(a.of, on);
      case prepare:
        if (this->is_empty(0)) return unit(a).memory.clear_gradients(on);
        if (!unit(a).memory.gradients_sharded() && !own.by_tree())
          unit(a).memory.prepare_gradients(on);
        return;
      case join_uses: return unit(a).memory.join_uses(on);
      case measure: return own.results_.norm.add(unit(a).memory, on);
      case clip:
        if (own.options_.keep_finite || own.limits_.any())
          own.outcome_ = own.results_.judge(on, own.limits_);
        if (check != nullptr && !check->agree(on, *exchanges))
          own.outcome_ = step_outcome::corrupted;
        if (!updates()) return;
        clip_parts(on);
        return own.results_.enqueue_scale(on, own.options_.clip.norm_threshold());
      case begin_update: return updates() ? this->begin_update(unit(a), on) : void();
      case action_kind::update:
        if (!updates()) return;
        if (!own.plans().units()[static_cast<std::size_t>(a.unit)].exchanges_update)
          this->begin_update(unit(a), on);
        return update_unit(unit(a), on);
      default: return;  // begin, reshard, end: marks for other streams
    }
  }

  void exchange(action const& a, exchange_stream& on, typename Stepper::requests_type& requests) {
    using enum action_kind;
    if (own.checked_by_ != nullptr && own.checked_by_->passes_alone() && follows_passes(a.kind))
      return;
    auto const use = static_cast<std::size_t>(a.use);
    auto const axes = own.groups_.axes();
    switch (a.kind) {
      case unshard: return own.placed_.set().unshard(unit(a), a.use, a.buffer, axes, on, requests);
      case reduce_scatter:
        return own.placed_.set().reduce_scatter(unit(a), use, a.buffer, a.first, axes, on);
      case reduce: return own.placed_.set().reduce(unit(a), use, a.last, axes, on, requests);
      case reduce_tied: return own.placed_.reduce_tied(unit(a), on, requests);
      case exchange_update:
        return updates() ? this->exchange_update(unit(a), on, requests) : void();
      case reduce_scalars: return own.results_.exchange(own.groups_.world(), main, on);
      default: return unit(a).memory.gather(axes, on, requests);
    }
  }

  [[nodiscard]] bool updates() const { return own.outcome_ == step_outcome::updated; }

  [[nodiscard]] typename Stepper::unit_entry& unit(action const& a) const {
    return own.placed_.units()[static_cast<std::size_t>(a.unit)];
  }

 private:
  /// Clips the gradients by what is no common factor. The host waits for the number of tokens.
  void clip_parts([[maybe_unused]] stream& on) {
    if constexpr (!std::is_integral_v<typename Stepper::gradient_type>)
      train::clip_parts(
          own.options_.clip, own.options_.order, own.placed_.units(), own.placed_.tensors(),
          own.device_, own.groups_.world(), on, *exchanges,
          [this] { return own.results_.result(own.options_.clip.norm_threshold()).sums.tokens; });
  }
  [[nodiscard]] auto optimizers() const { return std::span(std::as_const(own.optimizers_)); }
  [[nodiscard]] step_info<typename Stepper::gradient_type> info() const {
    return {std::int64_t{what.step} + 1, what.learning_rate_factor, own.results_.scale()};
  }
  void begin_update(typename Stepper::unit_entry const& of, stream& on) {
    zero::begin_update(of.memory, on, optimizers(), own.placed_.set().workspace(), info());
  }
  void exchange_update(typename Stepper::unit_entry const& of, exchange_stream& on,
                       typename Stepper::requests_type& requests) {
    zero::exchange_update(of.memory, own.groups_.axes().of_updates(own.groups_.tensor.size()), on,
                          optimizers(), own.placed_.set().workspace(), requests);
  }
  void update_unit(typename Stepper::unit_entry const& of, stream& on) {
    [[maybe_unused]] auto const named = annotate(on, [] { return std::string("optimizer"); });
    if (what.meter != nullptr) what.meter->before(of.memory, on, own.device_);
    zero::update(of.memory, on, optimizers(), own.placed_.set().workspace(), info());
    if (what.meter != nullptr) what.meter->after(of.memory, on);
  }
};

}  // namespace parallel::train
