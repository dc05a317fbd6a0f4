// layer: exact tests of the gradients of layers over integers. For layers over real numbers
// check_layer (parallel/layer/check.hpp) compares gradients with differences of the forward pass.
// The operations of the stream's device, such as <parallel/ops/host.hpp>, must be included before
// these tests are used.
//
// Modulo 2^64 the square of h = 2^32 is 0. So for every layer made of sums and products
// f(x + h v) = f(x) + h f'(x) v holds exactly, for any direction v, and the passes are compared
// without a tolerance, in the lower 32 bits of <f'(x) v, r>. The directions are random: a wrong
// gradient is not detected with a probability of about 2^-32 if the difference is odd; more rounds
// reduce it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <parallel/conformance/values.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/parameter.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/layer/check.hpp>
#include <parallel/layer/concepts.hpp>

namespace parallel::conformance {

/// The sequences and the random directions of a test, and the memory that it uses.
struct ring_layer_options {
  index sequence = 1;  ///< rows of one sequence
  int rounds = 4;      ///< number of random directions
  std::size_t arena_bytes = std::size_t{1} << 20;
};

namespace detail {

template <class Layer, class Stream>
class ring_checker {
 public:
  using ring = std::uint64_t;
  using numbers = std::vector<ring>;

  ring_checker(Layer& layer, index rows, index width, ring_layer_options const& options)
      : layer_(layer), rows_(rows), width_(width), options_(options) {
    x_ = next_values(static_cast<std::size_t>(rows * width));
    layer.visit_parameters([&](parameter_base<ring>& p) { parameters_.push_back(&p); });
    for (auto* const p : parameters_) {
      values_.push_back(next_values(static_cast<std::size_t>(p->size())));
      gradients_.push_back(next_values(values_.back().size()));  // the passes add to these values
    }
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i]->data = values_[i].data();
      parameters_[i]->gradient_data = gradients_[i].data();
    }
  }

  void run() {
    auto const gradients_before = gradients_;
    numbers const r = next_values(run_forward().size());
    auto const x_before = x_;
    auto const dx = backward(r, false);
    require(x_ == x_before, "check_ring_layer: a pass has overwritten the input");
    check_addends(r, dx);
    for (int round = 0; round < options_.rounds; ++round) {
      compare("backward_input", "the input", x_, dx, r);
      for (std::size_t i = 0; i < parameters_.size(); ++i) {
        auto added = gradients_[i];
        for (std::size_t j = 0; j < added.size(); ++j) added[j] -= gradients_before[i][j];
        compare("backward_weight", parameters_[i]->name, values_[i], added, r);
      }
    }
    check_overwriting(r, gradients_before);
  }

 private:
  static constexpr ring h = ring{1} << 32;

  numbers next_values(std::size_t count) { return values<ring>(generated_++, count); }

  /// With context::overwrite_gradients set, the layer overwrites the gradients that it declares to
  /// replace and adds to the others. `before` holds the gradients before the first pass.
  void check_overwriting(numbers const& r, std::vector<numbers> const& gradients_before) {
    auto const expected = gradients_;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      std::ranges::copy(gradients_before[i], gradients_[i].begin());
    static_cast<void>(backward(r, true));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      bool const replaces = parameters_[i]->replaces_gradient;
      for (std::size_t j = 0; j < gradients_before[i].size(); ++j)
        require(gradients_[i][j] == expected[i][j] - (replaces ? gradients_before[i][j] : 0),
                "check_ring_layer: parameter ", parameters_[i]->name,
                replaces
                    ? " declares replaces_gradient, but backward_weight does not overwrite its "
                      "gradient where context::overwrite_gradients is set"
                    : " does not declare replaces_gradient, but backward_weight does not add "
                      "to its gradient where context::overwrite_gradients is set");
    }
  }

  template <class F>
  void in_context(F&& f) {
    std::vector<std::byte> memory(options_.arena_bytes, std::byte{0xff});
    arena space(buffer<std::byte>(nullptr, memory.data(), memory.size()));
    Stream stream;
    context<Stream> c{stream, space, pass::training, {}, options_.sequence};
    typename Layer::saved saved{};
    f(c, saved);
    if constexpr (requires { stream.synchronize(); }) stream.synchronize();
  }

  [[nodiscard]] matrix_view<ring const> input() const { return {x_.data(), {rows_, width_}}; }

  [[nodiscard]] numbers run_forward() {
    numbers out;
    in_context([&](auto& c, auto& saved) {
      auto const y = layer_.forward(c, input(), saved);
      if constexpr (requires { c.stream.synchronize(); }) c.stream.synchronize();
      out.assign(y.data(), y.data() + y.size());
    });
    return out;
  }

  [[nodiscard]] numbers backward(numbers const& r, bool overwrite_gradients) {
    numbers out;
    in_context([&](auto& c, auto& saved) {
      c.overwrite_gradients = overwrite_gradients;
      auto const y = layer_.forward(c, input(), saved);
      auto const dx = layer_.backward_input(c, {r.data(), y.extents()}, saved);
      layer_.backward_weight(c, saved);
      if constexpr (requires { c.stream.synchronize(); }) c.stream.synchronize();
      out.assign(dx.data(), dx.data() + dx.size());
    });
    return out;
  }

  /// An addend that is passed to a layer is added to its result exactly once.
  void check_addends(numbers const& r, numbers const& dx) {
    auto const y = run_forward();
    auto const addend_of_y = next_values(y.size()), addend_of_dx = next_values(dx.size());
    auto const view = [&](numbers const& data) -> matrix_view<ring const> {
      return {data.data(), {rows_, static_cast<index>(data.size()) / rows_}};
    };
    auto const check = [](char const* pass_name, auto const& sum, numbers const& result,
                          numbers const& addend) {
      bool is_equal = static_cast<std::size_t>(sum.size()) == result.size();
      for (std::size_t i = 0; is_equal && i < result.size(); ++i)
        is_equal = sum.data()[i] == result[i] + addend[i];
      require(is_equal, "check_ring_layer: ", pass_name, " does not add what it is given to add");
    };
    in_context([&](auto& c, auto& saved) {
      auto const y_sum = forward_onto(layer_, c, input(), saved, view(addend_of_y));
      auto const dx_sum = backward_input_onto(layer_, c, view(r), saved, view(addend_of_dx));
      if constexpr (requires { c.stream.synchronize(); }) c.stream.synchronize();
      check("forward", y_sum, y, addend_of_y);
      check("backward_input", dx_sum, dx, addend_of_dx);
    });
  }

  void compare(std::string_view pass_name, std::string_view subject, numbers& variables,
               numbers const& gradient, numbers const& r) {
    require(gradient.size() == variables.size(), "check_ring_layer: ", pass_name, " gives ",
            gradient.size(), " numbers for the ", variables.size(), " of ", subject);
    auto const v = next_values(variables.size());
    auto const y = run_forward();
    auto const original = variables;
    ring predicted = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      variables[i] += h * v[i];
      predicted += gradient[i] * v[i];
    }
    auto const shifted_y = run_forward();
    variables = original;
    ring measured = 0;  // h times the change of <r, f>
    for (std::size_t i = 0; i < r.size(); ++i) measured += r[i] * (shifted_y[i] - y[i]);
    require(measured == h * predicted, "check_ring_layer: ", pass_name,
            " does not give the gradient of ", subject);
  }

  Layer& layer_;
  index rows_;
  index width_;
  ring_layer_options options_;
  int generated_ = 0;
  numbers x_;
  std::vector<parameter_base<ring>*> parameters_;
  std::vector<numbers> values_;
  std::vector<numbers> gradients_;
};

}  // namespace detail

/// Throws `error`, naming the pass and tensor, unless the gradients that `layer` computes for an
/// input of [rows, width] are those of its forward pass. The parameters of `layer`, which is a
/// copy, are bound to random values. Elements are std::uint64_t. The operations of `Stream`'s
/// device must be included.
template <class Stream, class Layer>
requires layer<Layer, Stream>
void check_ring_layer(Layer layer, index rows, index width,
                      ring_layer_options const& options = {}) {
  detail::ring_checker<Layer, Stream>(layer, rows, width, options).run();
}

}  // namespace parallel::conformance
