// check_layer: tests the three passes of any layer against each other, numerically.
//
// With random x and r, the scalar f = Σ r ∘ forward(x) has the gradients backward_input(r) and what
// backward_weight adds. Both are compared, element by element, with central differences of fourth
// order, (8 (f(+h) - f(-h)) - (f(+2h) - f(-2h))) / 12 h, whose error in double is about 1e-12. Run
// on the reference device. Cost: four forward passes per element of the input and the parameters.
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
  index sequence = 1;        // rows of one sequence
  double scale = 1.0;        // standard deviation of the random input and parameters
  double difference = 1e-3;  // h
  double tolerance = 1e-7;   // of a difference, relative to the largest gradient of its tensor
  position where = {};       // seeds dropout, and x, r and the parameters
  std::size_t arena_bytes = std::size_t{16} << 20;
};

struct check_layer_result {
  index compared = 0;       // elements whose gradients were compared
  double difference = 0.0;  // the largest, relative to the largest gradient of its tensor
};

namespace detail {

template <class Layer>
class layer_checker {
 public:
  layer_checker(Layer& layer, index rows, index width, check_layer_options const& options)
      : layer_(layer), rows_(rows), width_(width), options_(options), memory_(poisoned()) {
    x_ = random("check_layer.x", rows * width);
    layer.visit_parameters([&](parameter_base<double>& parameter) {
      values_.push_back(random(parameter.name, parameter.size()));
      start_.push_back(random("check_layer.gradient", parameter.size()));
      gradients_.push_back(start_.back());
      parameters_.push_back(&parameter);
    });
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      parameters_[p]->data = values_[p].data();
      parameters_[p]->gradient_data = gradients_[p].data();
    }
  }

  check_layer_result run() {
    auto const dx = passes(false);
    compare("backward_input", "the input", x_, dx);
    auto added = gradients_;
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      // gradients are added to what was there
      for (std::size_t i = 0; i < added[p].size(); ++i) added[p][i] -= start_[p][i];
      compare("backward_weight", concat("parameter ", parameters_[p]->name), values_[p], added[p]);
    }
    check_fresh(added);
    return result_;
  }

 private:
  /// All bits set: not-a-number, so that reading what was never written is found.
  [[nodiscard]] std::vector<std::byte> poisoned() const {
    return std::vector<std::byte>(options_.arena_bytes, std::byte{0xff});
  }

  [[nodiscard]] arena make_arena() {
    // it only borrows; the vector outlives it
    return arena(buffer<std::byte>(nullptr, memory_.data(), memory_.size()));
  }

  [[nodiscard]] std::vector<double> random(std::string_view name, index count) const {
    std::vector<double> out(static_cast<std::size_t>(count));
    initial_values(std::span<double>(out), name, normal_init{static_cast<float>(options_.scale)},
                   options_.where.seed, 0);
    return out;
  }

  [[nodiscard]] matrix_view<double const> input() const { return {x_.data(), {rows_, width_}}; }

  [[nodiscard]] context<reference::stream> at(arena& memory) {
    return {stream_, memory, pass::training, options_.where, options_.sequence};
  }

  /// Where nothing has been added yet, gradients that a layer declares to replace are replaced
  /// whatever is there, and the others added to.
  void check_fresh(std::vector<std::vector<double>> const& expected) {
    for (std::size_t p = 0; p < parameters_.size(); ++p)
      for (std::size_t i = 0; i < start_[p].size(); ++i)
        gradients_[p][i] = parameters_[p]->replaces_gradient
                               ? std::numeric_limits<double>::quiet_NaN()
                               : start_[p][i];
    static_cast<void>(passes(true));
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      bool const replaces = parameters_[p]->replaces_gradient;
      double largest = 1e-3;
      for (double const gradient : expected[p]) largest = std::max(largest, std::fabs(gradient));
      for (std::size_t i = 0; i < start_[p].size(); ++i) {
        double const written = gradients_[p][i] - (replaces ? 0.0 : start_[p][i]);
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

  /// One run of all three passes; chooses r, and returns the gradient of the input.
  [[nodiscard]] std::vector<double> passes(bool overwrite_gradients) {
    auto memory = make_arena();
    auto c = at(memory);
    c.overwrite_gradients = overwrite_gradients;
    typename Layer::saved kept{};
    auto const x_before = x_;
    auto const values_before = values_;
    auto const y = layer_.forward(c, input(), kept);
    require(y.extent(0) == rows_, "check_layer: forward turned ", rows_, " rows into ",
            y.extent(0));
    r_ = random("check_layer.r", y.size());
    auto const r_before = r_;
    auto const dx = layer_.backward_input(c, {r_.data(), y.extents()}, kept);
    require(dx.extents() == shape<2>{rows_, width_}, "check_layer: backward_input returned [",
            dx.extent(0), ", ", dx.extent(1), "] for an input of [", rows_, ", ", width_, "]");
    std::vector<double> out(dx.data(), dx.data() + dx.size());
    layer_.backward_weight(c, kept);
    require(x_ == x_before, "check_layer: a pass has overwritten the input");
    require(r_ == r_before, "check_layer: a pass has overwritten the gradient of the output");
    require(values_ == values_before, "check_layer: a pass has overwritten a parameter");
    return out;
  }

  /// f = Σ r ∘ forward(x).
  [[nodiscard]] double evaluate() {
    auto memory = make_arena();
    auto c = at(memory);
    typename Layer::saved kept{};
    auto const y = layer_.forward(c, input(), kept);
    double sum = 0.0;
    for (std::size_t i = 0; i < r_.size(); ++i) sum += r_[i] * y.data()[i];
    return sum;
  }

  [[nodiscard]] double numeric(double& variable) {
    double const value = variable;
    auto const f = [&](double steps) {
      variable = value + steps * options_.difference;
      double const result = evaluate();
      variable = value;
      return result;
    };
    return (8.0 * (f(1.0) - f(-1.0)) - (f(2.0) - f(-2.0))) / (12.0 * options_.difference);
  }

  void compare(std::string_view pass_name, std::string_view what, std::vector<double>& variables,
               std::vector<double> const& written) {
    std::vector<double> measured(variables.size());
    double largest = 1e-3;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      measured[i] = numeric(variables[i]);
      largest = std::max(largest, std::fabs(measured[i]));
    }
    for (std::size_t i = 0; i < variables.size(); ++i) {
      double const difference = std::fabs(written[i] - measured[i]) / largest;
      require(difference <= options_.tolerance, "check_layer: ", pass_name, " gives the gradient ",
              written[i], " for element ", i, " of ", what, ", but differences of forward give ",
              measured[i], "; allowed is ", options_.tolerance, " of the largest, ", largest);
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
  std::vector<std::vector<double>> start_;
  std::vector<std::vector<double>> gradients_;
  check_layer_result result_;
};

}  // namespace detail

/// Throws `error` naming the pass, tensor and element unless the gradients that `layer` (a copy;
/// its parameters are bound to random values) computes for an input of [rows, width] are those of
/// its forward pass, and the passes leave their inputs alone. The ops of the reference device must
/// have been included.
template <class Layer>
requires layer<Layer, reference::stream> check_layer_result
check_layer(Layer layer, index rows, index width, check_layer_options const& options = {}) {
  static_assert(std::is_same_v<typename Layer::element, double>,
                "differences need the precision of double");
  return detail::layer_checker<Layer>(layer, rows, width, options).run();
}

}  // namespace parallel
