// any_optimizer: one of a few optimizers, chosen at run time. An update makes one visit of the
// variant, so all callers are compiled once, whatever the choice.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include <parallel/optim/concepts.hpp>
#include <parallel/optim/settings.hpp>
#include <parallel/optim/whole_tensors.hpp>

namespace parallel {

template <class... Optimizers>
class any_optimizer {
 public:
  static constexpr bool some_take_tensors = (tensor_optimizer<Optimizers> || ...);

  template <class Optimizer>
  requires(std::same_as<Optimizer, Optimizers> || ...)
      any_optimizer(Optimizer choice)  // NOLINT(google-explicit-constructor)
      : choice_(std::move(choice)) {}

  [[nodiscard]] std::span<std::string_view const> state_names() const {
    return std::visit([](auto const& o) { return o.state_names(); }, choice_);
  }

  void visit_settings(auto&& visit) const {
    visit("choice", choice_.index());
    std::visit(
        [&](auto const& o) {
          if constexpr (shows_settings<std::remove_cvref_t<decltype(o)>>) o.visit_settings(visit);
        },
        choice_);
  }

  /// For optimizers that are all element-wise.
  template <class Stream, class T, reduced_gradient Gradient>
  requires(!some_take_tensors) void update(Stream& s, update_ranges<T, Gradient> const& ranges,
                                           step_info<accumulate_t<T>> const& info) const {
    std::visit([&](auto const& o) { o.update(s, ranges, info); }, choice_);
  }

  /// Whether the chosen optimizer takes whole tensors (whole_tensors.hpp). An element-wise
  /// optimizer needs no workspace and does its whole update in finish_update, the last of the three
  /// calls.
  [[nodiscard]] bool takes_whole_tensors() const {
    return std::visit([](auto const& o) { return parallel::takes_whole_tensors(o); }, choice_);
  }
  template <class T>
  [[nodiscard]] std::size_t workspace_bytes(unit_tensors<T> const& unit) const
      requires(some_take_tensors) {
    std::size_t bytes = 0;
    visit_tensor_optimizer([&](auto const& o) { bytes = o.template workspace_bytes<T>(unit); });
    return bytes;
  }
  template <class... Arguments>
  void begin_update(Arguments&&... arguments) const requires(some_take_tensors) {
    visit_tensor_optimizer([&](auto const& o) { o.begin_update(arguments...); });
  }
  template <class... Arguments>
  void exchange(Arguments&&... arguments) const requires(some_take_tensors) {
    visit_tensor_optimizer([&](auto const& o) { o.exchange(arguments...); });
  }
  template <class Stream, class Ranges, class Tensors, class Info>
  void finish_update(Stream& s, Ranges const& ranges, Tensors const& unit, arena& workspace,
                     Info const& info) const requires(some_take_tensors) {
    std::visit([&](auto const& o) { parallel::finish_update(o, s, ranges, unit, workspace, info); },
               choice_);
  }

 private:
  template <class F>
  void visit_tensor_optimizer(F&& f) const {
    std::visit(
        [&](auto const& o) {
          if constexpr (tensor_optimizer<std::remove_cvref_t<decltype(o)>>) f(o);
        },
        choice_);
  }

  std::variant<Optimizers...> choice_;
};

}  // namespace parallel
