// Decoupled AdamW as LLM Foundry and Composer define it (Loshchilov, Hutter, 2019, algorithm 2,
// with decay scaled by lr / initial_lr instead of lr).
#pragma once

#include <array>

#include <parallel/ops/update/element_update.hpp>
#include <parallel/optim/concepts.hpp>

namespace parallel {

/// Memory: master weights and two states per element. An update moves 38 bytes a parameter.
struct decoupled_adamw {
  double learning_rate = 1e-3;  ///< initial; the schedule multiplies it
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 1e-5;

  [[nodiscard]] static std::span<std::string_view const> state_names() {
    static constexpr std::array<std::string_view, 2> names = {"exp_avg", "exp_avg_sq"};
    return names;
  }

  void visit_settings(auto&& visit) const {
    visit("learning_rate", learning_rate);
    visit("beta1", beta1);
    visit("beta2", beta2);
    visit("eps", eps);
    visit("weight_decay", weight_decay);
  }

  template <class Stream, class T, reduced_gradient Gradient>
  void update(Stream& s, update_ranges<T, Gradient> const& ranges,
              step_info<accumulate_t<T>> const& info) const {
    ops::adamw(s, ranges.values, ranges.master, ranges.states[0], ranges.states[1],
               ranges.gradients.elements,
               {.lr = learning_rate * info.learning_rate_factor,
                .initial_lr = learning_rate,
                .beta1 = beta1,
                .beta2 = beta2,
                .eps = eps,
                .weight_decay = weight_decay,
                .step = info.step,
                .gradient_scale = info.gradient_scale});
  }
};

}  // namespace parallel
