// The optimizer concept: an element-wise rule over flat ranges.
//
// An optimizer sees ranges of segments, so every ZeRO stage and every layout runs the same code on
// the range that a rank owns (an optimizer of whole tensors also receives their positions:
// whole_tensors.hpp). It takes only reduced gradients: sums over the whole global batch, not yet
// divided; the one division is folded into `gradient_scale`.
//
// An optimizer whose settings ranks are to compare by name has visit_settings (settings.hpp).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>

namespace parallel {

/// A gradient that has been reduced over the data ranks (see mesh/placement.hpp).
template <class G>
concept reduced_gradient = G::is_reduced;

/// The values that change from step to step.
template <class A>
struct step_info {
  std::int64_t step = 1;              ///< 1 for the first update
  double learning_rate_factor = 1;    ///< the schedule's multiplier of the initial learning rate
  A const* gradient_scale = nullptr;  ///< clip factor / loss tokens; read on the stream
};

/// The states of one range, in the order of `state_names()`.
template <class A>
class state_ranges {
 public:
  state_ranges() = default;
  template <std::convertible_to<std::span<std::span<A> const>> Ranges>
  state_ranges(Ranges const& by_name)  // NOLINT(google-explicit-constructor)
      : by_name_(by_name) {}

  [[nodiscard]] std::size_t size() const { return by_name_.size(); }
  /// Throws where an update reads a state that `state_names()` does not name.
  [[nodiscard]] std::span<A> operator[](std::size_t state) const {
    require(state < size(), "the optimizer's update uses state ", state,
            " (from 0), but its state_names() has ", size(), "; name all that it keeps");
    return by_name_[state];
  }

 private:
  std::span<std::span<A> const> by_name_;
};

/// The flat ranges that one update works on.
template <class T, class Gradient>
struct update_ranges {
  static_assert(reduced_gradient<Gradient>,
                "an optimizer takes gradients that are summed over the data ranks; these are "
                "addends of that sum: reduce them first");
  std::span<T> values;
  std::span<accumulate_t<T>> master;  ///< may be `values` itself when T accumulates in T
  state_ranges<accumulate_t<T>> states;
  Gradient gradients;
};

/// What an optimizer has: names of its states, and an update of ranges of values.
template <class O, class Stream, class T, class Gradient>
concept optimizer = reduced_gradient<Gradient> &&
    requires(O const& o, Stream& s, update_ranges<T, Gradient> const& ranges,
             step_info<accumulate_t<T>> const& info) {
  { o.state_names() } -> std::convertible_to<std::span<std::string_view const>>;
  o.update(s, ranges, info);
};

}  // namespace parallel
