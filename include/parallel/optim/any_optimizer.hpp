// any_optimizer: one of a few optimizers, chosen at run time. One visit an update, so everything
// above is compiled once, whatever the choice.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>
#include <variant>

#include <parallel/optim/concepts.hpp>
#include <parallel/optim/whole_tensors.hpp>

namespace parallel {

template <class... Optimizers>
class any_optimizer {
 public:
  template <class Optimizer>
  requires(std::same_as<Optimizer, Optimizers> || ...)
      any_optimizer(Optimizer choice)  // NOLINT(google-explicit-constructor)
      : choice_(std::move(choice)) {}

  [[nodiscard]] std::span<std::string_view const> state_names() const {
    return std::visit([](auto const& o) { return o.state_names(); }, choice_);
  }

  /// When all of them are element-wise.
  template <class Stream, class T, reduced_gradient Gradient>
  requires(!(tensor_optimizer<Optimizers> ||
             ...)) void update(Stream& s, update_ranges<T, Gradient> const& ranges,
                               step_info<accumulate_t<T>> const& info) const {
    std::visit([&](auto const& o) { o.update(s, ranges, info); }, choice_);
  }

  /// When one of them takes whole tensors.
  template <class Stream, class T, reduced_gradient Gradient, class Exchange>
  requires(tensor_optimizer<Optimizers> ||
           ...) void update(Stream& s, update_ranges<T, Gradient> const& ranges,
                            segment_tensors const& where, Exchange const& exchange,
                            step_info<accumulate_t<T>> const& info) const {
    std::visit([&](auto const& o) { update_segment(o, s, ranges, where, exchange, info); },
               choice_);
  }
  template <class T>
  [[nodiscard]] std::size_t workspace_bytes(segment_tensors const& where) const
      requires(tensor_optimizer<Optimizers> || ...) {
    return std::visit([&](auto const& o) { return parallel::workspace_bytes<T>(o, where); },
                      choice_);
  }

 private:
  std::variant<Optimizers...> choice_;
};

}  // namespace parallel
