// residual_pair: two residual branches, one after the other or side by side, as a value decides.
//
// One after the other: h = x + A(x), y = h + B(h), as in most transformers. Side by side: y = x +
// A(x) + B(x), the parallel residual of GPT-J and GPT-NeoX (Wang, Komatsuzaki, 2021). In both forms
// each branch adds to the other's result in its last operation, so that the sums need no pass over
// separate memory.
#pragma once

#include <string_view>
#include <utility>

#include <parallel/layer/concepts.hpp>
#include <parallel/layer/sequential.hpp>

namespace parallel {

/// A and B are layers that leave the width of their input, without the identity path.
template <class A, class B>
struct residual_pair {
  using element = typename A::element;
  struct saved {
    typename A::saved first;
    typename B::saved second;
  };

  static constexpr std::string_view layer_of_whole_sequences(sequence_division division) {
    return first_layer_of_whole_sequences<A, B>(division);
  }

  residual<A> first;
  residual<B> second;
  bool is_parallel = false;  ///< both branches read x

  residual_pair() = default;
  residual_pair(residual<A> a, residual<B> b, bool parallel_branches = false)
      : first(std::move(a)), second(std::move(b)), is_parallel(parallel_branches) {}

  template <class Stream>
  [[nodiscard]] matrix_view<element> forward(context<Stream>& c, matrix_view<element const> x,
                                             saved& state) const {
    matrix_view<element const> const sum = first.forward(c, x, state.first);
    if (is_parallel) return forward_onto(second.inner, c, x, state.second, sum);
    return second.forward(c, sum, state.second);
  }

  template <class Stream>
  [[nodiscard]] matrix_view<element> backward_input(context<Stream>& c,
                                                    matrix_view<element const> dy,
                                                    saved& state) const {
    matrix_view<element const> const d_sum = second.backward_input(c, dy, state.second);
    if (is_parallel) return backward_input_onto(first.inner, c, dy, state.first, d_sum);
    return first.backward_input(c, d_sum, state.first);
  }
  /// See concepts.hpp.
  template <class Stream>
  void backward_input_into(context<Stream>& c, matrix_view<element> dx,
                           matrix_view<element const> dy, saved& state) const {
    matrix_view<element const> const d_sum = second.backward_input(c, dy, state.second);
    if (is_parallel)
      parallel::backward_input_into(first.inner, c, dx, dy, state.first, d_sum);
    else
      parallel::backward_input_into(first, c, dx, d_sum, state.first);
  }

  /// The last branch first: a reduction can start with its gradients.
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    backward_weight_of(second, c, state.second);
    backward_weight_of(first, c, state.first);
  }

  void visit_parameters(auto&& visit) {
    visit_parameters_of(first, visit);
    visit_parameters_of(second, visit);
  }
};

}  // namespace parallel
