#include <string>

#include <doctest/doctest.h>

#include <parallel/layer/check.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/ops/custom.hpp>
#include <parallel/ops/elementwise.hpp>

namespace check_test {
namespace {

using parallel::context;
using parallel::matrix_view;

/// The defect of the layer under test.
enum class fault {
  none,
  input_gradient,
  weight_gradient,
  weight_gradient_replaced,
  adds_but_says_it_replaces,
  replaces_but_does_not_say_so,
  input_overwritten,
  gradient_overwritten,
  weight_overwritten,
  reads_unwritten_memory,
  wrong_shape,
};

/// y = w ∘ x² with a vector w, in plain loops.
struct toy {
  using element = double;
  struct saved {
    matrix_view<double const> x;
    matrix_view<double const> dy;
  };

  parallel::parameter<double, 1> weight;
  fault wrong = fault::none;

  toy(parallel::index width, fault f) : weight("toy.weight", {width}), wrong(f) {}

  template <class Stream>
  matrix_view<double> forward(context<Stream>& c, matrix_view<double const> x, saved& state) const {
    state.x = x;
    auto y = c.template allocate<double, 2>(x.extents());
    for (parallel::index i = 0; i < x.extent(0); ++i)
      for (parallel::index j = 0; j < x.extent(1); ++j) {
        if (wrong == fault::reads_unwritten_memory && i == 1 && j == 1) continue;
        y(i, j) = weight.value()(j) * x(i, j) * x(i, j);
      }
    if (wrong == fault::input_overwritten) *const_cast<double*>(&x(0, 0)) = 0.0;
    if (wrong == fault::weight_overwritten) const_cast<double&>(weight.value()(0)) += 1.0;
    return y;
  }

  template <class Stream>
  matrix_view<double> backward_input(context<Stream>& c, matrix_view<double const> dy,
                                     saved& state) const {
    state.dy = dy;
    auto extents = dy.extents();
    if (wrong == fault::wrong_shape) --extents[1];
    auto dx = c.template allocate<double, 2>(extents);
    for (parallel::index i = 0; i < dx.extent(0); ++i)
      for (parallel::index j = 0; j < dx.extent(1); ++j)
        dx(i, j) = (wrong == fault::input_gradient && i == 1 ? 2.000001 : 2.0) * weight.value()(j) *
                   state.x(i, j) * dy(i, j);
    if (wrong == fault::gradient_overwritten) const_cast<double&>(dy(0, 0)) = 0.0;
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    auto const gradient = weight.gradient();
    for (parallel::index j = 0; j < gradient.extent(0); ++j) {
      double sum = 0.0;
      for (parallel::index i = 0; i < state.x.extent(0); ++i)
        sum += state.x(i, j) * state.x(i, j) * state.dy(i, j);
      if (wrong == fault::weight_gradient) sum = -sum;
      if (wrong == fault::weight_gradient_replaced ||
          (wrong == fault::replaces_but_does_not_say_so && c.overwrite_gradients))
        gradient(j) = 0.0;
      gradient(j) += sum;
    }
  }

  void visit_parameters(auto&& visit) {
    weight.replaces_gradient = wrong == fault::adds_but_says_it_replaces;
    visit(weight);
  }
};

std::string error_text(fault wrong) {
  try {
    parallel::check_layer(toy(3, wrong), 2, 3);
  } catch (parallel::error const& failure) {
    return failure.what();
  }
  return "right";
}

bool error_contains(fault wrong, std::string const& words) {
  auto const text = error_text(wrong);
  INFO(text);
  return text.find(words) != std::string::npos;
}

TEST_CASE("check_layer: it accepts a correct layer and reports the number of compared elements") {
  auto const result = parallel::check_layer(toy(3, fault::none), 2, 3);
  CHECK(result.compared == 2 * 3 + 3);
  CHECK(result.difference < 1e-10);
}

TEST_CASE("check_layer: it finds a gradient that is wrong by a millionth and names its element") {
  CHECK(error_contains(fault::input_gradient, "check_layer: backward_input gives the gradient "));
  CHECK(error_contains(fault::input_gradient, " of the input, but differences of forward give "));
}

TEST_CASE("check_layer: it finds a wrong gradient of a parameter, and one that is not added") {
  for (fault const wrong : {fault::weight_gradient, fault::weight_gradient_replaced})
    CHECK(error_contains(wrong, " for element 0 of parameter toy.weight, but "));
}

TEST_CASE("check_layer: it finds a wrong declaration of replaces_gradient") {
  CHECK(
      error_text(fault::adds_but_says_it_replaces) ==
      "check_layer: parameter toy.weight declares replaces_gradient, but backward_weight does not "
      "overwrite its gradient where context::overwrite_gradients is set");
  CHECK(error_text(fault::replaces_but_does_not_say_so) ==
        "check_layer: parameter toy.weight does not declare replaces_gradient, but backward_weight "
        "does not add to its gradient where context::overwrite_gradients is set");
}

TEST_CASE("check_layer: it finds passes that overwrite their inputs") {
  CHECK(error_contains(fault::input_overwritten, "has overwritten the input"));
  CHECK(error_contains(fault::gradient_overwritten, "has overwritten the gradient of the output"));
  CHECK(error_contains(fault::weight_overwritten, "has overwritten a parameter"));
}

TEST_CASE("check_layer: it finds elements that are never written, and wrong shapes") {
  CHECK(error_contains(fault::reads_unwritten_memory, "nan"));
  CHECK(
      error_contains(fault::wrong_shape, "backward_input returned [2, 2] for an input of [2, 3]"));
}

/// y = x + offset, where visit_parameters does not visit the offset.
struct hidden_parameter {
  using element = double;
  struct saved {};
  parallel::parameter<double, 1> offset{"offset", {4}};

  template <class Stream>
  matrix_view<double> forward(context<Stream>& c, matrix_view<double const> x, saved&) const {
    auto const y = c.template allocate<double, 2>(x.extents());
    parallel::ops::custom(
        c.stream,
        [=, this] {
          for (parallel::index i = 0; i < x.extent(0); ++i)
            for (parallel::index j = 0; j < x.extent(1); ++j) y(i, j) = x(i, j) + offset.value()(j);
        },
        y, x, offset.value());
    return y;
  }
  template <class Stream>
  matrix_view<double> backward_input(context<Stream>& c, matrix_view<double const> dy,
                                     saved&) const {
    auto const dx = c.template allocate<double, 2>(dy.extents());
    parallel::ops::copy(c.stream, dx.span(), dy.span());
    return dx;
  }
  template <class Stream>
  void backward_weight(context<Stream>&, saved const&) const {}
  void visit_parameters(auto&&) {}
};

struct weight_only : parallel::linear<double> {
  void visit_parameters(auto&& visit) { visit(weight); }
};

TEST_CASE("check_layer: a parameter that visit_parameters does not visit is reported") {
  CHECK_THROWS_WITH(
      parallel::check_layer(hidden_parameter{}, 3, 4),
      "an operation computes with 4 elements that are bound to nothing, as those of a "
      "parameter are that its layer's visit_parameters does not show");
  parallel::linear<double> half;
  half.weight = {"weight", {4, 4}};
  half.bias = {"bias", {4}};
  CHECK_THROWS_WITH(
      parallel::check_layer(weight_only{half}, 3, 4),
      "an operation computes with 4 elements that are bound to nothing, as those of a "
      "parameter are that its layer's visit_parameters does not show");
}

}  // namespace
}  // namespace check_test
