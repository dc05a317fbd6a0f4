// layer_variant: one of two layers, chosen when a model is built, such as a dense or a mixed
// feed-forward layer of a block.
#pragma once

#include <string_view>
#include <utility>
#include <variant>

#include <parallel/layer/concepts.hpp>

namespace parallel {

/// Both layers have the same elements, and take and give whole values.
template <class A, class B>
struct layer_variant {
  using element = typename A::element;
  using T = element;

  static constexpr std::string_view layer_of_whole_sequences(sequence_division division) {
    return first_layer_of_whole_sequences<A, B>(division);
  }

  std::variant<A, B> layer;

  struct saved {
    typename A::saved first;
    typename B::saved second;
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x, saved& state,
                                       matrix_view<T const> summand = {}) const {
    return visit_chosen(state, [&](auto const& chosen, auto& chosen_state) {
      return forward_onto(chosen, c, x, chosen_state, summand);
    });
  }
  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& state,
                                              matrix_view<T const> summand = {}) const {
    return visit_chosen(state, [&](auto const& chosen, auto& chosen_state) {
      return backward_input_onto(chosen, c, dy, chosen_state, summand);
    });
  }
  /// As linear::restore_input.
  void restore_input(saved& state, matrix_view<T const> x) const {
    visit_chosen(state, [&](auto const& chosen, auto& chosen_state) {
      chosen.restore_input(chosen_state, x);
    });
  }
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    visit_chosen(state, [&](auto const& chosen, auto const& chosen_state) {
      backward_weight_of(chosen, c, chosen_state);
    });
  }
  void visit_parameters(auto&& visit) {
    std::visit([&](auto& chosen) { visit_parameters_of(chosen, visit); }, layer);
  }

 private:
  /// Calls f(layer, its saved state).
  template <class Saved, class F>
  decltype(auto) visit_chosen(Saved& state, F const& f) const {
    return layer.index() == 0 ? f(std::get<0>(layer), state.first)
                              : f(std::get<1>(layer), state.second);
  }
};

}  // namespace parallel
