// normed_branch: the path of a residual layer, with norms in front of its layer (pre-norm: most
// transformers), behind it (OLMo 2) or on both sides (Gemma 2, GLM-4), and with a factor of its
// result (Granite).
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

#include <parallel/layer/norm.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel {

/// y = scale * output_norm(Layer(input_norm(x))), where either norm may be absent. With a norm
/// behind the layer it keeps the layer's result and that norm's state; a scale other than 1 costs
/// one pass over the result, and one copy of its gradient.
template <class Layer>
struct normed_branch {
  using element = typename Layer::element;
  using T = element;

  static constexpr std::string_view layer_of_whole_sequences(sequence_division division) {
    return parallel::layer_of_whole_sequences<Layer>(division);
  }

  sequential<norm<T>, Layer> inner;  ///< the norm of the input, which may be absent, and the layer
  norm<T> output_norm = {};          ///< of the layer's result, or absent
  accumulate_t<T> scale = 1;

  struct saved {
    typename sequential<norm<T>, Layer>::saved inner;
    typename norm<T>::saved output_norm;
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x, saved& state,
                                       matrix_view<T const> summand = {}) const {
    if (ends_in_layer()) return forward_inner(c, x, state, summand);
    matrix_view<T> y = forward_inner(c, x, state, {});
    if (output_norm.weight.is_present()) y = output_norm.forward(c, y, state.output_norm);
    if (scale != 1) ops::scale(c.stream, y.span(), scale);
    if (summand.size() > 0) ops::add(c.stream, y.span(), summand.span());
    return y;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                              saved& state,
                                              matrix_view<T const> summand = {}) const {
    auto const gradient = layer_gradient(c, dy, state);
    if (has_input_norm()) return backward_input_onto(inner, c, gradient, state.inner, summand);
    return backward_input_onto(layer(), c, gradient, std::get<1>(state.inner), summand);
  }
  /// See concepts.hpp.
  template <class Stream, class... Summand>
  void backward_input_into(context<Stream>& c, matrix_view<T> dx, matrix_view<T const> dy,
                           saved& state, Summand... summand) const {
    auto const gradient = layer_gradient(c, dy, state);
    if (has_input_norm())
      parallel::backward_input_into(inner, c, dx, gradient, state.inner, summand...);
    else
      parallel::backward_input_into(layer(), c, dx, gradient, std::get<1>(state.inner), summand...);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    backward_weight_of(output_norm, c, state.output_norm);
    backward_weight_of(inner, c, state.inner);
  }

  void visit_parameters(auto&& visit) {
    visit_parameters_of(inner, visit);
    visit_parameters_of(output_norm, visit);
  }

 private:
  [[nodiscard]] Layer const& layer() const { return std::get<1>(inner.layers); }
  [[nodiscard]] bool has_input_norm() const {
    return std::get<0>(inner.layers).weight.is_present();
  }
  [[nodiscard]] bool ends_in_layer() const {
    return !output_norm.weight.is_present() && scale == 1;
  }

  template <class Stream>
  [[nodiscard]] auto forward_inner(context<Stream>& c, matrix_view<T const> x, saved& state,
                                   matrix_view<T const> summand) const {
    if (has_input_norm()) return forward_onto(inner, c, x, state.inner, summand);
    return forward_onto(layer(), c, x, std::get<1>(state.inner), summand);
  }

  /// The gradient of the layer's result.
  template <class Stream>
  [[nodiscard]] matrix_view<T const> layer_gradient(context<Stream>& c, matrix_view<T const> dy,
                                                    saved& state) const {
    if (scale != 1) {
      auto const scaled = c.template allocate<T, 2>(dy.extents());
      ops::copy(c.stream, scaled.span(), dy.span());
      ops::scale(c.stream, scaled.span(), scale);
      dy = scaled;
    }
    return output_norm.weight.is_present() ? output_norm.backward_input(c, dy, state.output_norm)
                                           : dy;
  }
};

}  // namespace parallel
