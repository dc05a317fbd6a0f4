// any_optimizer: one of a few optimizers, chosen at run time. One visit an update, so everything
// above is compiled once, whatever the choice.
#pragma once

#include <concepts>
#include <utility>
#include <variant>

#include <parallel/optim/concepts.hpp>

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

  template <class Stream, class T, reduced_gradient Gradient>
  void update(Stream& s, update_ranges<T, Gradient> const& ranges,
              step_info<accumulate_t<T>> const& info) const {
    std::visit([&](auto const& o) { o.update(s, ranges, info); }, choice_);
  }

 private:
  std::variant<Optimizers...> choice_;
};

}  // namespace parallel
