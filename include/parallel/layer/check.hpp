// check_layer: tests the three passes of any layer against each other numerically.
//
// For random x and r the scalar f = Σ r ∘ forward(x) has the gradients backward_input(r) and those
// that backward_weight adds. check_layer compares both, element by element, with central
// differences of fourth order, (8 (f(+h) - f(-h)) - (f(+2h) - f(-2h))) / 12 h, whose error in
// double is about 1e-12. It runs on the reference device. Cost: four forward passes per element of
// the input and the parameters.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/parameter.hpp>
#include <parallel/layer/concepts.hpp>
#include <parallel/ops/reference.hpp>

namespace parallel {

struct check_layer_options {
  index sequence = 1;          // rows of one sequence
  double scale = 1.0;          // standard deviation of the random input and parameters
  double difference = 1e-3;    // h
  double tolerance = 1e-7;     // of a difference, relative to the largest gradient of its tensor
  position run_position = {};  // seeds dropout, and x, r and the parameters
  std::size_t arena_bytes = std::size_t{16} << 20;
};

struct check_layer_result {
  index compared = 0;  // number of elements whose gradients were compared
  double difference =
      0.0;  // the largest difference, relative to the largest gradient of its tensor
};

namespace detail {

template <class Layer>
class layer_checker {
 public:
  layer_checker(Layer& layer, index rows, index width, check_layer_options const& options)
      : layer_(layer), rows_(rows), width_(width), options_(options), memory_(poisoned_memory()) {
    x_ = random("check_layer.x", rows * width);
    layer.visit_parameters([&](parameter_base<double>& parameter) {
      values_.push_back(random(parameter.name, parameter.size()));
      initial_gradients_.push_back(random("check_layer.gradient", parameter.size()));
      gradients_.push_back(initial_gradients_.back());
      parameters_.push_back(&parameter);
    });
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      parameters_[p]->data = values_[p].data();
      parameters_[p]->gradient_data = gradients_[p].data();
    }
  }

  check_layer_result run() {
    auto const dx = run_passes(false);
    compare("backward_input", "the input", x_, dx);
    auto added = gradients_;
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      // backward_weight adds to the gradients that the memory held before
      for (std::size_t i = 0; i < added[p].size(); ++i) added[p][i] -= initial_gradients_[p][i];
      compare("backward_weight", concat("parameter ", parameters_[p]->name), values_[p], added[p]);
    }
    check_overwriting(added);
    return result_;
  }

 private:
  /// Memory with all bits set (not-a-number), so that a read of an unwritten element is found.
  [[nodiscard]] std::vector<std::byte> poisoned_memory() const {
    return std::vector<std::byte>(options_.arena_bytes, std::byte{0xff});
  }

  [[nodiscard]] arena make_arena() {
    // the arena borrows the vector, which outlives it
    return arena(buffer<std::byte>(nullptr, memory_.data(), memory_.size()));
  }

  [[nodiscard]] std::vector<double> random(std::string_view name, index count) const {
    std::vector<double> out(static_cast<std::size_t>(count));
    initial_values(std::span<double>(out), name, normal_init{static_cast<float>(options_.scale)},
                   options_.run_position.seed, 0);
    return out;
  }

  [[nodiscard]] matrix_view<double const> input() const { return {x_.data(), {rows_, width_}}; }

  [[nodiscard]] context<reference::stream> make_context(arena& memory) {
    return {stream_, memory, pass::training, options_.run_position, options_.sequence};
  }

  /// With context::overwrite_gradients, parameters that declare replaces_gradient must be
  /// overwritten whatever their gradient holds; the gradients of the others must be added to.
  void check_overwriting(std::vector<std::vector<double>> const& expected) {
    for (std::size_t p = 0; p < parameters_.size(); ++p)
      for (std::size_t i = 0; i < initial_gradients_[p].size(); ++i)
        gradients_[p][i] = parameters_[p]->replaces_gradient
                               ? std::numeric_limits<double>::quiet_NaN()
                               : initial_gradients_[p][i];
    static_cast<void>(run_passes(true));
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      bool const replaces = parameters_[p]->replaces_gradient;
      double largest = 1e-3;
      for (double const gradient : expected[p]) largest = std::max(largest, std::fabs(gradient));
      for (std::size_t i = 0; i < initial_gradients_[p].size(); ++i) {
        double const written = gradients_[p][i] - (replaces ? 0.0 : initial_gradients_[p][i]);
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

  /// Runs all three passes once, chooses r and returns the gradient of the input.
  [[nodiscard]] std::vector<double> run_passes(bool overwrite_gradients) {
    auto memory = make_arena();
    auto c = make_context(memory);
    c.overwrite_gradients = overwrite_gradients;
    typename Layer::saved state{};
    auto const initial_x = x_;
    auto const initial_values_copy = values_;
    auto const y = layer_.forward(c, input(), state);
    require(y.extent(0) == rows_, "check_layer: forward turned ", rows_, " rows into ",
            y.extent(0));
    r_ = random("check_layer.r", y.size());
    auto const initial_r = r_;
    auto const dx = layer_.backward_input(c, {r_.data(), y.extents()}, state);
    require(dx.extents() == shape<2>{rows_, width_}, "check_layer: backward_input returned [",
            dx.extent(0), ", ", dx.extent(1), "] for an input of [", rows_, ", ", width_, "]");
    std::vector<double> out(dx.data(), dx.data() + dx.size());
    layer_.backward_weight(c, state);
    require(x_ == initial_x, "check_layer: a pass has overwritten the input");
    require(r_ == initial_r, "check_layer: a pass has overwritten the gradient of the output");
    require(values_ == initial_values_copy, "check_layer: a pass has overwritten a parameter");
    return out;
  }

  /// f = Σ r ∘ forward(x).
  [[nodiscard]] double evaluate() {
    auto memory = make_arena();
    auto c = make_context(memory);
    typename Layer::saved state{};
    auto const y = layer_.forward(c, input(), state);
    double sum = 0.0;
    for (std::size_t i = 0; i < r_.size(); ++i) sum += r_[i] * y.data()[i];
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

  Layer& layer_;
  index rows_;
  index width_;
  check_layer_options options_;
  std::vector<std::byte> memory_;
  reference::stream stream_;
  std::vector<double> x_;
  std::vector<double> r_;
  std::vector<parameter_base<double>*> parameters_;
  std::vector<std::vector<double>> values_;
  std::vector<std::vector<double>> initial_gradients_;
  std::vector<std::vector<double>> gradients_;
  check_layer_result result_;
};

}  // namespace detail

/// Checks a copy of `layer`, with its parameters bound to random values, on an input of
/// [rows, width]: its gradients must be those of its forward pass, and no pass may change the
/// pass's inputs. Throws `error` that names the pass, the tensor and the element. The caller must
/// have included the ops of the reference device.
template <class Layer>
requires layer<Layer, reference::stream> check_layer_result
check_layer(Layer layer, index rows, index width, check_layer_options const& options = {}) {
  static_assert(std::is_same_v<typename Layer::element, double>,
                "differences need the precision of double");
  return detail::layer_checker<Layer>(layer, rows, width, options).run();
}

}  // namespace parallel
