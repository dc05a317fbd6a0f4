// any_optimizer: one of a few optimizers, chosen at run time. One visit an update, so everything
// above is compiled once, whatever the choice.
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

  /// When all of them are element-wise.
  template <class Stream, class T, reduced_gradient Gradient>
  requires(!some_take_tensors) void update(Stream& s, update_ranges<T, Gradient> const& ranges,
                                           step_info<accumulate_t<T>> const& info) const {
    std::visit([&](auto const& o) { o.update(s, ranges, info); }, choice_);
  }

  /// When one of them takes whole tensors (whole_tensors.hpp). An element-wise one, if that was
  /// chosen, works in no memory, and does everything in the last of three.
  [[nodiscard]] bool takes_whole_tensors() const {
    return std::visit([](auto const& o) { return parallel::takes_whole_tensors(o); }, choice_);
  }
  template <class T>
  [[nodiscard]] std::size_t workspace_bytes(unit_tensors<T> const& where) const
      requires(some_take_tensors) {
    std::size_t bytes = 0;
    visit_whole([&](auto const& o) { bytes = o.template workspace_bytes<T>(where); });
    return bytes;
  }
  template <class... Arguments>
  void begin_update(Arguments&&... arguments) const requires(some_take_tensors) {
    visit_whole([&](auto const& o) { o.begin_update(arguments...); });
  }
  template <class... Arguments>
  void exchange(Arguments&&... arguments) const requires(some_take_tensors) {
    visit_whole([&](auto const& o) { o.exchange(arguments...); });
  }
  template <class Stream, class Ranges, class Tensors, class Info>
  void finish_update(Stream& s, Ranges const& ranges, Tensors const& where, arena& workspace,
                     Info const& info) const requires(some_take_tensors) {
    std::visit(
        [&](auto const& o) { parallel::finish_update(o, s, ranges, where, workspace, info); },
        choice_);
  }

 private:
  template <class F>
  void visit_whole(F&& f) const {
    std::visit(
        [&](auto const& o) {
          if constexpr (tensor_optimizer<std::remove_cvref_t<decltype(o)>>) f(o);
        },
        choice_);
  }

  std::variant<Optimizers...> choice_;
};

}  // namespace parallel
