// linear: y = x Wᵀ + b, W stored [out, in] as in PyTorch and the Hugging Face files; with an
// adapter of low rank where there is one.
#pragma once

#include <type_traits>

#include <parallel/layer/concepts.hpp>
#include <parallel/layer/low_rank.hpp>
#include <parallel/ops/affine.hpp>
#include <parallel/ops/bias.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/matmul.hpp>

namespace parallel {

/// y += bias + onto, both where there are any: what is added once to a sum of ranks' addends.
template <class Stream, class T>
void add_bias_onto(context<Stream>& c, matrix_view<T> y, parameter<T, 1> const& bias,
                   std::type_identity_t<matrix_view<T const>> onto) {
  if (bias.present())
    ops::add_bias(c.stream, y, bias.value(), onto);
  else if (onto.size() > 0)
    ops::add(c.stream, y.span(), onto.span());
}

/// Cost for M rows: 2·M·in·out operations forward, twice that backward; keeps x and dy (views).
template <class T>
struct linear {
  using element = T;

  parameter<T, 2> weight;    // [out, in]
  parameter<T, 1> bias;      // [out], or absent
  low_rank<T> adapter = {};  // added to the product, or absent

  struct saved {
    matrix_view<T const> x;   // [rows, in]
    matrix_view<T const> dy;  // [rows, out]
    typename low_rank<T>::saved adapter;
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x, saved& kept,
                                       matrix_view<T const> onto = {}) const {
    keep(c, x, kept);
    auto y = c.template allocate<T, 2>({x.extent(0), weight.extents[0]});
    apply(c, y, x, kept, onto);
    return y;
  }
  /// The two halves of `forward`, for a result that is released before what is kept: allocation,
  /// then the product, to y [rows of kept.x, out]. What it is added to, if anything, is added with
  /// the bias where there is one: what is rounded twice is then the product alone.
  template <class Stream>
  void keep(context<Stream>& c, matrix_view<T const> x, saved& kept) const {
    kept.x = x;
    adapter.keep(c, x.extent(0), kept.adapter);
  }
  template <class Stream>
  void apply(context<Stream>& c, matrix_view<T> y, matrix_view<T const> x, saved& kept,
             matrix_view<T const> onto = {}) const {
    apply(c, y, x, kept, onto, bias);
  }
  /// As `apply` above, with a bias that is another's: of a layer that has this one within.
  template <class Stream>
  void apply(context<Stream>& c, matrix_view<T> y, matrix_view<T const> x, saved& kept,
             matrix_view<T const> onto, parameter<T, 1> const& shift) const {
    arena::scope const temporaries(c.memory);
    onto = adapter.forward(c, x, kept.adapter, onto);
    if (shift.present())
      ops::affine(c.stream, y, x, weight.value(), shift.value(), onto);
    else
      ops::matmul(c.stream, y, x, weight.value(), {.transpose_b = true}, onto);
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& kept, matrix_view<T const> onto = {}) const {
    kept.dy = dy;
    auto dx = c.template allocate<T, 2>({dy.extent(0), weight.extents[1]});
    adapter.keep_backward(c, dy.extent(0), kept.adapter);
    arena::scope const temporaries(c.memory);
    onto = adapter.backward_input(c, dy, kept.adapter, onto);
    ops::matmul(c.stream, dx, dy, weight.value(), {}, onto);
    return dx;
  }

  /// Tells the pass to come that x, which was dropped, is here.
  void input_again(saved& kept, matrix_view<T const> x) const { kept.x = kept.adapter.x = x; }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    backward_weight(c, kept, bias);
  }
  /// As `backward_weight` above, with a bias that is another's, as in `apply`.
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept, parameter<T, 1> const& shift) const {
    bool const accumulate = !c.overwrite_gradients;
    if (weight.has_gradient() && shift.has_gradient())
      ops::affine_backward_weight(c.stream, weight.gradient(), shift.gradient(), kept.dy, kept.x,
                                  accumulate);
    else if (weight.has_gradient())
      ops::matmul(c.stream, weight.gradient(), kept.dy, kept.x,
                  {.transpose_a = true, .accumulate = accumulate});
    else if (shift.has_gradient())
      ops::add_bias_backward(c.stream, shift.gradient(), kept.dy);
    adapter.backward_weight(c, kept.adapter);
  }

  void visit_parameters(auto&& visit) {
    weight.replaces_gradient = true;
    visit(weight);
    if (bias.present()) visit(bias);
    adapter.visit_parameters(visit);
  }
};

}  // namespace parallel
