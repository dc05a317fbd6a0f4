// gradient_assignment: an optimizer for parameters that hold what a step has counted, such as the
// loads of a router (layer/router.hpp). Their gradients are those counts, which are summed over
// ranks and microbatches as all gradients are.
#pragma once

#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/optim/concepts.hpp>

namespace parallel {

/// value = factor gradient: the gradient is summed, but neither divided nor clipped. Memory: master
/// weights and no state.
struct gradient_assignment {
  double factor = 1.0;

  [[nodiscard]] static std::span<std::string_view const> state_names() { return {}; }

  void visit_settings(auto&& visit) const { visit("factor", factor); }

  template <class Stream, class T, reduced_gradient Gradient>
  void update(Stream& s, update_ranges<T, Gradient> const& ranges,
              step_info<accumulate_t<T>> const& /*info*/) const {
    ops::axpby(s, ranges.master, ranges.gradients.elements, factor, 0.0);
    ops::cast(s, ranges.values, ranges.master);
  }
};

}  // namespace parallel
