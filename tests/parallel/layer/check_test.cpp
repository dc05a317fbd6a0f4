#include <string>

#include <doctest/doctest.h>

#include <parallel/layer/check.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/ops/custom.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

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
  captures_by_reference,
  captures_by_reference_in_backward,
  result_in_closed_scope,
  saved_in_scratch,
  reads_in_forward,
  writes_in_backward,
  reads_weight_in_backward_weight,
  keeps_input_in_layer,
};

/// y = w ∘ x² with a vector w, in plain loops.
struct toy {
  using element = double;
  using matrix = matrix_view<double>;
  using const_matrix = matrix_view<double const>;
  struct saved {
    const_matrix x, dy;
  };

  parallel::parameter<double, 1> weight;
  fault wrong = fault::none;
  mutable const_matrix last_input = {};

  toy(parallel::index width, fault f) : weight("toy.weight", {width}), wrong(f) {}

  template <class Stream>
  matrix forward(context<Stream>& c, const_matrix x, saved& state) const {
    state.x = last_input = x;
    auto const w = weight.value();
    if (wrong == fault::reads_in_forward && !(x(0, 0) < 1e9)) return x_times(c, 2.0, x);
    if (wrong == fault::result_in_closed_scope) {
      parallel::arena::scope const temporary(c.memory);
      return squares(c, c.template allocate<double, 2>(x.extents()), x, w);
    }
    if (wrong == fault::saved_in_scratch && c.scratch != nullptr) {
      auto const copy = c.scratch->template allocate<double, 2>(x.extents());
      parallel::ops::copy(c.stream, copy.span(), x.span());
      state.x = copy;
    }
    auto y = c.template allocate<double, 2>(x.extents());
    if (wrong == fault::captures_by_reference) {
      parallel::ops::custom(
          c.stream, [&] { multiply_squares(y, x, w, false); }, y, x, w);
      return y;
    }
    return squares(c, y, x, w);
  }

  template <class Stream>
  matrix backward_input(context<Stream>& c, const_matrix dy, saved& state) const {
    state.dy = dy;
    auto extents = dy.extents();
    if (wrong == fault::wrong_shape) --extents[1];
    auto dx = c.template allocate<double, 2>(extents);
    auto const x = wrong == fault::keeps_input_in_layer ? last_input : state.x;
    auto const w = weight.value();
    auto const compute = [dx, dy, x, w, f = wrong] {
      for (parallel::index i = 0; i < dx.extent(0); ++i)
        for (parallel::index j = 0; j < dx.extent(1); ++j)
          dx(i, j) =
              (f == fault::input_gradient && i == 1 ? 2.000001 : 2.0) * w(j) * x(i, j) * dy(i, j);
      if (f == fault::gradient_overwritten) const_cast<double&>(dy(0, 0)) = 0.0;
    };
    if (wrong == fault::captures_by_reference_in_backward)
      parallel::ops::custom(
          c.stream, [&] { compute(); }, dx, dy, x, w);
    else if (wrong == fault::writes_in_backward)
      compute();
    else
      parallel::ops::custom(c.stream, compute, dx, dy, x, w);
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    auto const gradient = weight.gradient();
    bool const replaces = wrong == fault::weight_gradient_replaced ||
                          (wrong == fault::replaces_but_does_not_say_so && c.overwrite_gradients);
    auto const sign =
        wrong == fault::weight_gradient ||
                (wrong == fault::reads_weight_in_backward_weight && !(weight.value()(0) < 1e9))
            ? -1.0
            : 1.0;
    parallel::ops::custom(
        c.stream,
        [gradient, x = state.x, dy = state.dy, sign, replaces] {
          for (parallel::index j = 0; j < gradient.extent(0); ++j) {
            double sum = 0.0;
            for (parallel::index i = 0; i < x.extent(0); ++i) sum += x(i, j) * x(i, j) * dy(i, j);
            if (replaces) gradient(j) = 0.0;
            gradient(j) += sign * sum;
          }
        },
        parallel::ops::updates(gradient), state.x, state.dy);
  }

  void visit_parameters(auto&& visit) {
    weight.replaces_gradient = wrong == fault::adds_but_says_it_replaces;
    visit(weight);
  }

 private:
  using const_vector = parallel::vector_view<double const>;

  static void multiply_squares(matrix y, const_matrix x, const_vector w, bool leaves_out_one) {
    for (parallel::index i = 0; i < x.extent(0); ++i)
      for (parallel::index j = 0; j < x.extent(1); ++j)
        if (!leaves_out_one || i != 1 || j != 1) y(i, j) = w(j) * x(i, j) * x(i, j);
  }

  template <class Stream>
  matrix squares(context<Stream>& c, matrix y, const_matrix x, const_vector w) const {
    parallel::ops::custom(
        c.stream,
        [=, f = wrong] {
          multiply_squares(y, x, w, f == fault::reads_unwritten_memory);
          if (f == fault::input_overwritten) const_cast<double&>(x(0, 0)) = 0.0;
          if (f == fault::weight_overwritten) const_cast<double&>(w(0)) += 1.0;
        },
        y, x, w);
    return y;
  }

  template <class Stream>
  static matrix x_times(context<Stream>& c, double factor, const_matrix x) {
    auto const y = c.template allocate<double, 2>(x.extents());
    parallel::ops::custom(
        c.stream,
        [=] {
          for (parallel::index i = 0; i < x.size(); ++i) y.data()[i] = factor * x.data()[i];
        },
        y, x);
    return y;
  }
};

std::string error_text(fault wrong) {
  try {
    parallel::check_layer(toy(3, wrong), 2, 3, {.sequence = 2});
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

TEST_CASE("check_layer: accepts a correct layer and reports the number of compared elements") {
  auto const result = parallel::check_layer(toy(3, fault::none), 2, 3, {.sequence = 2});
  CHECK(result.compared == 2 * 3 + 3);
  CHECK(result.difference < 1e-10);
}

TEST_CASE("check_layer: finds a gradient that is wrong by a millionth and names its element") {
  CHECK(error_contains(fault::input_gradient, "check_layer: backward_input gives the gradient "));
  CHECK(error_contains(fault::input_gradient, " of the input, but differences of forward give "));
}

TEST_CASE("check_layer: finds a wrong gradient of a parameter, and one that is not added") {
  for (fault const wrong : {fault::weight_gradient, fault::weight_gradient_replaced})
    CHECK(error_contains(wrong, " for element 0 of parameter toy.weight, but "));
}

TEST_CASE("check_layer: finds a wrong declaration of replaces_gradient") {
  CHECK(
      error_text(fault::adds_but_says_it_replaces) ==
      "check_layer: parameter toy.weight declares replaces_gradient, but backward_weight does not "
      "overwrite its gradient where context::overwrite_gradients is set");
  CHECK(error_text(fault::replaces_but_does_not_say_so) ==
        "check_layer: parameter toy.weight does not declare replaces_gradient, but backward_weight "
        "does not add to its gradient where context::overwrite_gradients is set");
}

TEST_CASE("check_layer: finds passes that overwrite their inputs") {
  CHECK(error_contains(fault::input_overwritten, "has overwritten the input"));
  CHECK(error_contains(fault::gradient_overwritten, "has overwritten the gradient of the output"));
  CHECK(error_contains(fault::weight_overwritten, "has overwritten a parameter"));
}

TEST_CASE("check_layer: finds elements that are never written, and wrong shapes") {
  CHECK(error_contains(fault::reads_unwritten_memory, "nan"));
  CHECK(
      error_contains(fault::wrong_shape, "backward_input returned [2, 2] for an input of [2, 3]"));
}

TEST_CASE("check_layer: a task that captures local variables by reference is refused") {
  char const* const remedy =
      " is another when its tasks run after it has returned; a task must capture local variables "
      "by value, as [=] does, and not by reference, as [&]";
  CHECK(error_text(fault::captures_by_reference) ==
        std::string("check_layer: the result of forward") + remedy);
  CHECK(error_text(fault::captures_by_reference_in_backward) ==
        std::string("check_layer: the result of backward_input") + remedy);
}

TEST_CASE("check_layer: results in memory that the layer has released are refused") {
  char const* const remedy =
      " is another when memory is overwritten as soon as it is released; a result, and what "
      "`saved` refers to, must not be in an arena::scope that is closed or in context::scratch";
  CHECK(error_text(fault::result_in_closed_scope) ==
        std::string("check_layer: the result of forward") + remedy);
  CHECK(error_text(fault::saved_in_scratch) ==
        std::string("check_layer: the result of backward_input") + remedy);
}

TEST_CASE("check_layer: elements that a pass reads or writes outside tasks are refused") {
  char const* const remedy =
      " is another when what it is given has no values until its tasks run; read and write "
      "elements in tasks alone, as those of ops::custom";
  CHECK(error_text(fault::reads_in_forward) ==
        std::string("check_layer: the result of forward") + remedy);
  CHECK(error_text(fault::writes_in_backward) ==
        std::string("check_layer: the result of backward_input") + remedy);
  CHECK(error_text(fault::reads_weight_in_backward_weight) ==
        std::string("check_layer: the result of backward_weight") + remedy);
}

TEST_CASE("check_layer: a layer that keeps a microbatch's values in itself is refused") {
  CHECK(error_text(fault::keeps_input_in_layer) ==
        "check_layer: the result of backward_input is another when the passes of another "
        "microbatch run in between; keep what a microbatch needs in `saved`, and not in the "
        "layer");
}

TEST_CASE("check_layer: the rows of one sequence must be given, and divide the input's rows") {
  for (parallel::index const sequence : {0, -1, 4})
    CHECK_THROWS_WITH_AS(
        parallel::check_layer(toy(3, fault::none), 6, 3, {.sequence = sequence}),
        ("check_layer: options.sequence, the rows of one sequence, is " + std::to_string(sequence) +
         "; give it a value of which the input's 6 rows are a multiple")
            .c_str(),
        parallel::error);
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
      parallel::check_layer(hidden_parameter{}, 3, 4, {.sequence = 3}),
      "an operation computes with 4 elements that are bound to nothing, as those of a "
      "parameter are that its layer's visit_parameters does not show");
  parallel::linear<double> half;
  half.weight = {"weight", {4, 4}};
  half.bias = {"bias", {4}};
  CHECK_THROWS_WITH(
      parallel::check_layer(weight_only{half}, 3, 4, {.sequence = 3}),
      "an operation computes with 4 elements that are bound to nothing, as those of a "
      "parameter are that its layer's visit_parameters does not show");
}

}  // namespace
}  // namespace check_test
