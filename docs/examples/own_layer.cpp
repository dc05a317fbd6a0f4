// A user-defined layer: a gain for every column, with a user-defined operation. Its gradients are
// checked against finite differences, alone and in a composition.
#include <cstdio>

#include <parallel/parallel.hpp>

namespace example {

using parallel::accumulate_t;
using parallel::context;
using parallel::index;
using parallel::matrix_view;
using parallel::vector_view;

// [guide: own_operation]
/// y[i, j] = x[i, j] * gain[j], computed in float where T is bf16, and rounded once.
constexpr auto scale_columns = []<class T>(matrix_view<T> y, matrix_view<T const> x,
                                           vector_view<T const> gain) {
  using A = accumulate_t<T>;
  for (index i = 0; i < y.extent(0); ++i)
    for (index j = 0; j < y.extent(1); ++j) y(i, j) = static_cast<T>(A(x(i, j)) * A(gain(j)));
};

/// d_gain[j] += sum over i of dy[i, j] * x[i, j].
constexpr auto scale_columns_backward = []<class T>(vector_view<accumulate_t<T>> d_gain,
                                                    matrix_view<T const> dy,
                                                    matrix_view<T const> x) {
  using A = accumulate_t<T>;
  for (index i = 0; i < x.extent(0); ++i)
    for (index j = 0; j < x.extent(1); ++j) d_gain(j) += A(dy(i, j)) * A(x(i, j));
};
// [guide: end]

// [guide: own_layer]
template <class T>
struct column_gain {
  using element = T;
  static constexpr bool takes_divided_sequences = true;  // each row by itself

  parallel::parameter<T, 1> gain;  // [width]

  struct saved {  // views of what the backward pass needs
    matrix_view<T const> x, dy;
  };

  template <class Stream>
  matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x, saved& state) const {
    state.x = x;
    auto const y = c.template allocate<T, 2>(x.extents());
    parallel::ops::custom(c.stream, scale_columns, y, x, gain.value());
    return y;
  }

  template <class Stream>
  matrix_view<T> backward_input(context<Stream>& c, matrix_view<T const> dy, saved& state) const {
    state.dy = dy;
    auto const dx = c.template allocate<T, 2>(dy.extents());
    parallel::ops::custom(c.stream, scale_columns, dx, dy, gain.value());
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    if (gain.has_gradient())  // false when it is frozen
      parallel::ops::custom(c.stream, scale_columns_backward,
                            parallel::ops::updates(gain.gradient()), state.dy, state.x);
  }

  void visit_parameters(auto&& visit) { visit(gain); }
};
// [guide: end]

}  // namespace example

int main() {
  using namespace example;
  // [guide: check_layer]
  column_gain<double> layer;
  layer.gain = {"gain", {6}, parallel::constant_init{1.0F}};
  // two sequences of 3 rows, in 6 columns
  auto const single = parallel::check_layer(layer, 6, 6, {.sequence = 3});

  parallel::linear<double> down;
  down.weight = {"down", {6, 6}, parallel::normal_init{0.2F}};
  auto const composed = parallel::residual(parallel::sequential(layer, down));
  auto const together = parallel::check_layer(composed, 6, 6, {.sequence = 3});
  // [guide: end]
  std::printf("%td and %td gradients equal finite differences, to %.0e and %.0e\n", single.compared,
              together.compared, single.difference, together.difference);
  return single.compared == 6 * 6 + 6 && together.compared == 6 * 6 + 6 + 36 ? 0 : 1;
}
