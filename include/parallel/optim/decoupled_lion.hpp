// Lion with decoupled weight decay as LLM Foundry's decoupled_lionw defines it (Chen et al., 2023,
// with decay scaled by lr / initial_lr instead of lr).
#pragma once

#include <array>

#include <parallel/ops/update/element_update.hpp>
#include <parallel/optim/concepts.hpp>

namespace parallel {

/// Memory: master weights and one state per element. An update moves 30 bytes a parameter.
struct decoupled_lion {
  double learning_rate = 1e-4;  ///< initial; the schedule multiplies it
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.0;

  [[nodiscard]] static std::span<std::string_view const> state_names() {
    static constexpr std::array<std::string_view, 1> names = {"exp_avg"};
    return names;
  }

  void visit_settings(auto&& visit) const {
    visit("learning_rate", learning_rate);
    visit("beta1", beta1);
    visit("beta2", beta2);
    visit("weight_decay", weight_decay);
  }

  template <class Stream, class T, reduced_gradient Gradient>
  void update(Stream& s, update_ranges<T, Gradient> const& ranges,
              step_info<accumulate_t<T>> const& info) const {
    ops::lion(s, ranges.values, ranges.master, ranges.states[0], ranges.gradients.elements,
              {.lr = learning_rate * info.learning_rate_factor,
               .initial_lr = learning_rate,
               .beta1 = beta1,
               .beta2 = beta2,
               .weight_decay = weight_decay,
               .gradient_scale = info.gradient_scale});
  }
};

}  // namespace parallel
