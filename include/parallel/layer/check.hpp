// check_layer: tests the three passes of any layer against each other numerically.
//
// For random x and r the scalar f = Σ r ∘ forward(x) has the gradients backward_input(r) and those
// that backward_weight adds. check_layer compares both, element by element, with central
// differences of fourth order, (8 (f(+h) - f(-h)) - (f(+2h) - f(-2h))) / 12 h, whose error in
// double is about 1e-12. It runs on the reference device. Cost: four forward passes per element of
// the input and the parameters.
//
// It also runs the passes as training does (layer/check_passes.hpp): tasks start after the passes
// have returned, released memory is overwritten, and microbatches alternate. A layer that declares
// takes_divided_sequences gets the halves of a sequence, one after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/parameter.hpp>
#include <parallel/layer/check_passes.hpp>
#include <parallel/layer/concepts.hpp>

namespace parallel {

struct check_layer_options {
  index sequence = 0;          ///< rows of one sequence, of which the input has one or more; needed
  double scale = 1.0;          ///< standard deviation of the random input and parameters
  double difference = 1e-3;    ///< h
  double tolerance = 1e-7;     ///< of a difference, relative to the largest gradient of its tensor
  position run_position = {};  ///< seeds dropout, and x, r and the parameters
  std::size_t arena_bytes = std::size_t{16} << 20;
};

/// How many gradients were compared, and by how much they differ.
struct check_layer_result {
  index compared = 0;  ///< number of elements whose gradients were compared
  double difference =
      0.0;  ///< the largest difference, relative to the largest gradient of its tensor
};

namespace detail {

/// The beginning and the end of the error for passes whose results differ under a condition.
struct condition_words {
  pass_condition condition;
  std::string_view words, remedy;
};
inline constexpr condition_words conditions_of_training[] = {
    {pass_condition::two_microbatches, "the passes of another microbatch run in between",
     "keep what a microbatch needs in `saved`, and not in the layer"},
    {pass_condition::released_memory, "memory is overwritten as soon as it is released",
     "a result, and what `saved` refers to, must not be in an arena::scope that is closed or in "
     "context::scratch"},
    {pass_condition::reused_frames, "its tasks run after it has returned",
     "a task must capture local variables by value, as [=] does, and not by reference, as [&]"},
    {pass_condition::late_inputs, "what it is given has no values until its tasks run",
     "read and write elements in tasks alone, as those of ops::custom"},
};

template <class Layer>
class layer_checker {
 public:
  layer_checker(Layer& layer, index rows, index width, check_layer_options const& options)
      : options_(checked(options, rows)),
        layer_(layer),
        width_(width),
        passes_(layer, {rows, width}, options.sequence, options.run_position, options.arena_bytes) {
    inputs_.x = random("check_layer.x", rows * width);
    layer.visit_parameters([&](parameter_base<double>& parameter) {
      inputs_.values.push_back(random(parameter.name, parameter.size()));
      inputs_.gradients.push_back(random("check_layer.gradient", parameter.size()));
      parameters_.push_back(&parameter);
    });
  }

  check_layer_result run() {
    auto const output = passes_.output(inputs_);
    auto const again = passes_.output(inputs_);
    require(std::memcmp(again.data(), output.data(), output.size() * sizeof(double)) == 0,
            "check_layer: forward gives another result for the same input when it is called again; "
            "random numbers come from context::random, and a layer keeps nothing between passes");
    inputs_.output_gradient = random("check_layer.r", static_cast<index>(output.size()));
    auto const results = passes_.run(inputs_, pass_condition::plain);
    compare("backward_input", "the input", inputs_.x, results.input_gradient);
    auto added = results.gradients;
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      // backward_weight adds to the gradients that the memory held before
      for (std::size_t i = 0; i < added[p].size(); ++i) added[p][i] -= inputs_.gradients[p][i];
      compare("backward_weight", concat("parameter ", parameters_[p]->name), inputs_.values[p],
              added[p]);
    }
    check_overwriting(added);
    for (auto const& condition : conditions_of_training) check_condition(condition, results);
    if constexpr (requires { requires Layer::takes_divided_sequences; })
      if constexpr (!requires { requires Layer::exchanges_rows; }) check_divided_sequences();
    return result_;
  }

 private:
  [[nodiscard]] static check_layer_options const& checked(check_layer_options const& options,
                                                          index rows) {
    require(options.sequence > 0 && rows % options.sequence == 0,
            "check_layer: options.sequence, the rows of one sequence, is ", options.sequence,
            "; give it a value of which the input's ", rows, " rows are a multiple");
    return options;
  }

  [[nodiscard]] std::vector<double> random(std::string_view name, index count) const {
    std::vector<double> out(static_cast<std::size_t>(count));
    initial_values(std::span<double>(out), name, normal_init{static_cast<float>(options_.scale)},
                   options_.run_position.seed, 0);
    return out;
  }

  /// With context::overwrite_gradients, parameters that declare replaces_gradient must be
  /// overwritten whatever their gradient holds; the gradients of the others must be added to.
  void check_overwriting(std::vector<std::vector<double>> const& expected) {
    auto inputs = inputs_;
    inputs.overwrite_gradients = true;
    for (std::size_t p = 0; p < parameters_.size(); ++p)
      if (parameters_[p]->replaces_gradient)
        std::ranges::fill(inputs.gradients[p], std::numeric_limits<double>::quiet_NaN());
    auto const results = passes_.run(inputs, pass_condition::plain);
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      bool const replaces = parameters_[p]->replaces_gradient;
      double largest = 1e-3;
      for (double const gradient : expected[p]) largest = std::max(largest, std::fabs(gradient));
      for (std::size_t i = 0; i < expected[p].size(); ++i) {
        double const written = results.gradients[p][i] - (replaces ? 0.0 : inputs.gradients[p][i]);
        require(std::fabs(written - expected[p][i]) <= options_.tolerance * largest,
                "check_layer: parameter ", parameters_[p]->name,
                replaces
                    ? " declares replaces_gradient, but backward_weight does not overwrite its "
                      "gradient where context::overwrite_gradients is set"
                    : " does not declare replaces_gradient, but backward_weight does not add "
                      "to its gradient where context::overwrite_gradients is set");
      }
    }
  }

  /// The passes must give the same bits under this condition.
  void check_condition(condition_words const& condition, pass_results const& expected) {
    auto const results = passes_.run(inputs_, condition.condition);
    auto const require_same = [&](std::string_view pass_name, std::vector<double> const& result,
                                  std::vector<double> const& plain) {
      require(std::memcmp(result.data(), plain.data(), plain.size() * sizeof(double)) == 0,
              "check_layer: the result of ", pass_name, " is another when ", condition.words, "; ",
              condition.remedy);
    };
    require_same("forward", results.output, expected.output);
    require_same("backward_input", results.input_gradient, expected.input_gradient);
    for (std::size_t p = 0; p < parameters_.size(); ++p)
      require_same("backward_weight", results.gradients[p], expected.gradients[p]);
  }

  /// A layer that declares takes_divided_sequences gives the same bits for the first rows of a
  /// sequence and for the others, where a rank has them alone, as for the whole sequence.
  void check_divided_sequences() {
    index const whole = options_.sequence;
    if (whole == 1) return;
    auto const output_of = [&](index first, index last) {
      layer_passes<Layer> passes(layer_, {last - first, width_}, last - first,
                                 options_.run_position, options_.arena_bytes,
                                 {.whole = whole, .starts = {first}, .runs = 1});
      auto inputs = inputs_;
      inputs.x.assign(inputs_.x.begin() + first * width_, inputs_.x.begin() + last * width_);
      return passes.output(inputs);
    };
    auto const expected = output_of(0, whole);
    auto divided = output_of(0, whole / 2);
    auto const others = output_of(whole / 2, whole);
    divided.insert(divided.end(), others.begin(), others.end());
    require(divided == expected,
            "check_layer: the layer declares takes_divided_sequences, but its result is another "
            "where a rank has half of a sequence; leave the declaration out where a row of the "
            "result depends on other rows, and take positions from context::for_each_span");
  }

  /// f = Σ r ∘ forward(x).
  [[nodiscard]] double evaluate() {
    auto const y = passes_.output(inputs_);
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += inputs_.output_gradient[i] * y[i];
    return sum;
  }

  [[nodiscard]] double numeric(double& variable) {
    double const value = variable;
    auto const loss_at = [&](double steps) {
      variable = value + steps * options_.difference;
      double const result = evaluate();
      variable = value;
      return result;
    };
    return (8.0 * (loss_at(1.0) - loss_at(-1.0)) - (loss_at(2.0) - loss_at(-2.0))) /
           (12.0 * options_.difference);
  }

  void compare(std::string_view pass_name, std::string_view tensor_name,
               std::vector<double>& variables, std::vector<double> const& written) {
    std::vector<double> measured(variables.size());
    double largest = 1e-3;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      measured[i] = numeric(variables[i]);
      largest = std::max(largest, std::fabs(measured[i]));
    }
    for (std::size_t i = 0; i < variables.size(); ++i) {
      double const difference = std::fabs(written[i] - measured[i]) / largest;
      require(difference <= options_.tolerance, "check_layer: ", pass_name, " gives the gradient ",
              written[i], " for element ", i, " of ", tensor_name,
              ", but differences of forward give ", measured[i], "; allowed is ",
              options_.tolerance, " of the largest, ", largest);
      result_.difference = std::max(result_.difference, difference);
      ++result_.compared;
    }
  }

  check_layer_options options_;
  Layer& layer_;
  index width_;
  layer_passes<Layer> passes_;
  std::vector<parameter_base<double>*> parameters_;
  pass_inputs inputs_;
  check_layer_result result_;
};

}  // namespace detail

/// Checks a copy of `layer`, with its parameters bound to random values, on an input of
/// [rows, width]: its gradients must be those of its forward pass, and no pass may change the
/// pass's inputs, keep a microbatch's values in the layer, use memory that it has released, or read
/// elements outside tasks. Throws `error` that names the pass, and the tensor and the element or
/// the cause.
template <class Layer>
requires layer<Layer, reference::deferred_stream> check_layer_result
check_layer(Layer layer, index rows, index width, check_layer_options const& options = {}) {
  static_assert(std::is_same_v<typename Layer::element, double>,
                "differences need the precision of double");
  return detail::layer_checker<Layer>(layer, rows, width, options).run();
}

}  // namespace parallel
