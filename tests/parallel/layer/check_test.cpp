#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <parallel/layer/check.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/ops/custom.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/support/files.hpp>
#include <support/text_cases.hpp>

namespace check_test {
namespace {

using parallel::context;
using parallel::matrix_view;

/// y = w ∘ x² with a vector w, in plain loops, with a defect that layer_defects.txt names, or none.
struct toy {
  using element = double;
  using matrix = matrix_view<double>;
  using const_matrix = matrix_view<double const>;
  struct saved {
    const_matrix x, dy;
  };

  parallel::parameter<double, 1> weight;
  std::string_view wrong;
  mutable const_matrix last_input = {};
  mutable double last_number = 0;

  toy(parallel::index width, std::string_view f) : weight("toy.weight", {width}), wrong(f) {}

  template <class Stream>
  matrix forward(context<Stream>& c, const_matrix x, saved& state) const {
    state.x = last_input = x;
    auto const w = weight.value();
    if (wrong == "reads_in_forward" && !(x(0, 0) < 1e9)) return x_times(c, 2.0, x);
    if (wrong == "result_in_closed_scope") {
      parallel::arena::scope const temporary(c.memory);
      return squares(c, c.template allocate<double, 2>(x.extents()), x, w);
    }
    if (wrong == "saved_in_scratch" && c.scratch != nullptr) {
      auto const copy = c.scratch->template allocate<double, 2>(x.extents());
      parallel::ops::copy(c.stream, copy.span(), x.span());
      state.x = copy;
    }
    if (wrong == "random_numbers_of_its_own") return x_times(c, ++last_number, x);
    auto y = c.template allocate<double, 2>(x.extents());
    if (wrong == "captures_by_reference") {
      c.stream.enqueue([&] { multiply_squares(y, x, w, false); });
      return y;
    }
    return squares(c, y, x, w);
  }

  template <class Stream>
  matrix backward_input(context<Stream>& c, const_matrix dy, saved& state) const {
    state.dy = dy;
    auto extents = dy.extents();
    if (wrong == "wrong_shape") --extents[1];
    auto dx = c.template allocate<double, 2>(extents);
    auto const x = wrong == "keeps_input_in_layer" ? last_input : state.x;
    auto const w = weight.value();
    auto const compute = [dx, dy, x, w, f = wrong] {
      for (parallel::index i = 0; i < dx.extent(0); ++i)
        for (parallel::index j = 0; j < dx.extent(1); ++j)
          dx(i, j) = (f == "input_gradient" && i == 1 ? 2.000001 : 2.0) * w(j) * x(i, j) * dy(i, j);
      if (f == "gradient_overwritten") const_cast<double&>(dy(0, 0)) = 0.0;
    };
    if (wrong == "captures_by_reference_in_backward")
      c.stream.enqueue([&] { compute(); });
    else if (wrong == "writes_in_backward")
      compute();
    else
      c.stream.enqueue(compute);
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    auto const gradient = weight.gradient();
    bool const replaces = wrong == "weight_gradient_replaced" ||
                          (wrong == "replaces_but_does_not_say_so" && c.overwrite_gradients);
    auto const sign = wrong == "weight_gradient" || (wrong == "reads_weight_in_backward_weight" &&
                                                     !(weight.value()(0) < 1e9))
                          ? -1.0
                          : 1.0;
    parallel::ops::custom(
        c.stream,
        [](auto gradient, auto x, auto dy, double sign, bool replaces) {
          for (parallel::index j = 0; j < gradient.extent(0); ++j) {
            double sum = 0.0;
            for (parallel::index i = 0; i < x.extent(0); ++i) sum += x(i, j) * x(i, j) * dy(i, j);
            if (replaces) gradient(j) = 0.0;
            gradient(j) += sign * sum;
          }
        },
        parallel::ops::updates(gradient), state.x, state.dy, sign, replaces);
  }

  void visit_parameters(auto&& visit) {
    weight.replaces_gradient = wrong == "adds_but_says_it_replaces";
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
        [](matrix y, const_matrix x, const_vector w, bool leaves_out_one, bool writes_x,
           bool writes_w) {
          multiply_squares(y, x, w, leaves_out_one);
          if (writes_x) const_cast<double&>(x(0, 0)) = 0.0;
          if (writes_w) const_cast<double&>(w(0)) += 1.0;
        },
        y, x, w, wrong == "reads_unwritten_memory", wrong == "input_overwritten",
        wrong == "weight_overwritten");
    return y;
  }

  template <class Stream>
  static matrix x_times(context<Stream>& c, double factor, const_matrix x) {
    auto const y = c.template allocate<double, 2>(x.extents());
    parallel::ops::custom(
        c.stream,
        [](matrix y, const_matrix x, double factor) {
          for (parallel::index i = 0; i < x.size(); ++i) y.data()[i] = factor * x.data()[i];
        },
        y, x, factor);
    return y;
  }
};

/// y = x, and with `adds_row_before` plus the row before; it declares that sequences may be
/// divided.
struct row_layer {
  using matrix = matrix_view<double>;
  using const_matrix = matrix_view<double const>;
  using element = double;
  static constexpr bool takes_divided_sequences = true;
  struct saved {};
  bool adds_row_before = false;

  template <class Stream>
  matrix forward(context<Stream>& c, const_matrix x, saved&) const {
    return with_neighbours(c, x, -1);
  }
  template <class Stream>
  matrix backward_input(context<Stream>& c, const_matrix dy, saved&) const {
    return with_neighbours(c, dy, 1);
  }
  template <class Stream>
  void backward_weight(context<Stream>&, saved const&) const {}
  void visit_parameters(auto&&) {}

 private:
  /// The rows of x, and with `adds_row_before` each plus the row that is `distance` after it.
  template <class Stream>
  matrix with_neighbours(context<Stream>& c, const_matrix x, parallel::index distance) const {
    auto const y = c.template allocate<double, 2>(x.extents());
    parallel::ops::custom(
        c.stream,
        [](matrix sums, const_matrix rows, parallel::index sequence, parallel::index offset,
           bool adds) {
          for (parallel::index i = 0; i < rows.extent(0); ++i) {
            auto const neighbour = i % sequence + offset;
            bool const has_one = adds && neighbour >= 0 && neighbour < sequence;
            for (parallel::index j = 0; j < rows.extent(1); ++j)
              sums(i, j) = rows(i, j) + (has_one ? rows(i + offset, j) : 0.0);
          }
        },
        y, x, c.sequence, distance, adds_row_before);
    return y;
  }
};

TEST_CASE("check_layer: a layer that falsely declares takes_divided_sequences is refused") {
  CHECK_NOTHROW(parallel::check_layer(row_layer{}, 6, 2, {.sequence = 3}));
  CHECK(test::contains(
      test::message_of([] { parallel::check_layer(row_layer{true}, 6, 2, {.sequence = 3}); }),
      "check_layer: the layer declares takes_divided_sequences, but its result is another where a "
      "rank has half of a sequence"));
}

TEST_CASE("check_layer: accepts a correct layer and reports the number of compared elements") {
  auto const result = parallel::check_layer(toy(3, ""), 2, 3, {.sequence = 2});
  CHECK(result.compared == 2 * 3 + 3);
  CHECK(result.difference < 1e-10);
}

void check_defects(std::string const& section) {
  for (auto const& defect : test::text_cases("parallel/layer/layer_defects.txt", section)) {
    auto const message = test::message_of(
        [&] { parallel::check_layer(toy(3, defect.text), 2, 3, {.sequence = 2}); });
    CHECK_MESSAGE(test::contains(message, defect.expected), defect.text, ": ", message);
  }
}

TEST_CASE("check_layer: every defect of a layer is found and explained") {
  check_defects("defects");
}

// A sanitizer ends the program here, so that this case is left out under one.
TEST_CASE("check_layer: a task that captures local variables by reference is refused") {
  check_defects("tasks");
}

TEST_CASE("check_layer: the rows of one sequence must be given, and divide the input's rows") {
  for (parallel::index const sequence : {0, -1, 4})
    CHECK_THROWS_WITH_AS(
        parallel::check_layer(toy(3, ""), 6, 3, {.sequence = sequence}),
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
        [](auto y, auto x, auto addends) {
          for (parallel::index i = 0; i < x.extent(0); ++i)
            for (parallel::index j = 0; j < x.extent(1); ++j) y(i, j) = x(i, j) + addends(j);
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
