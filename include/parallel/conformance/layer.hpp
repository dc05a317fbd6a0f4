// The laws of layers: gradients of real layers are those that differences of the forward pass give
// (check_layer, parallel/layer/check.hpp); those of layers over integers are exact (here). The
// operations of the stream, <parallel/ops/host.hpp> say, must be declared where they are used.
//
// Modulo 2^64 the number h = 2^32 squares to nothing, so for every layer made of sums and products
// f(x + h v) = f(x) + h f'(x) v to the bit, for any direction v: the passes are compared without a
// tolerance, in the lower 32 bits of <f'(x) v, r>. The directions are random, and a wrong gradient
// goes unseen with probability 2^-32 or so for odd differences; rounds make it less.
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

struct ring_layer_options {
  index sequence = 1;  // rows of one sequence
  int rounds = 4;      // directions tried
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
    x_ = next(static_cast<std::size_t>(rows * width));
    layer.visit_parameters([&](parameter_base<ring>& p) { parameters_.push_back(&p); });
    for (auto* const p : parameters_) {
      values_.push_back(next(static_cast<std::size_t>(p->size())));
      gradients_.push_back(next(values_.back().size()));  // added to, whatever is there
    }
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i]->data = values_[i].data();
      parameters_[i]->gradient_data = gradients_[i].data();
    }
  }

  void run() {
    auto const before = gradients_;
    numbers const r = next(run_forward().size());
    auto const x_before = x_;
    auto const dx = backward(r, false);
    require(x_ == x_before, "check_ring_layer: a pass has overwritten the input");
    check_additions(r, dx);
    for (int round = 0; round < options_.rounds; ++round) {
      compare("backward_input", "the input", x_, dx, r);
      for (std::size_t i = 0; i < parameters_.size(); ++i) {
        auto added = gradients_[i];
        for (std::size_t j = 0; j < added.size(); ++j) added[j] -= before[i][j];
        compare("backward_weight", parameters_[i]->name, values_[i], added, r);
      }
    }
    check_fresh(r, before);
  }

 private:
  static constexpr ring h = ring{1} << 32;

  numbers next(std::size_t count) { return values<ring>(made_++, count); }

  /// Where nothing has been added yet, gradients that a layer declares to replace are replaced
  /// whatever is there, and the others added to. `before`: what was there at first.
  void check_fresh(numbers const& r, std::vector<numbers> const& before) {
    auto const expected = gradients_;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      std::ranges::copy(before[i], gradients_[i].begin());
    static_cast<void>(backward(r, true));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      bool const replaces = parameters_[i]->replaces_gradient;
      for (std::size_t j = 0; j < before[i].size(); ++j)
        require(gradients_[i][j] == expected[i][j] - (replaces ? before[i][j] : 0),
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
    typename Layer::saved kept{};
    f(c, kept);
    if constexpr (requires { stream.synchronize(); }) stream.synchronize();
  }

  [[nodiscard]] matrix_view<ring const> input() const { return {x_.data(), {rows_, width_}}; }

  [[nodiscard]] numbers run_forward() {
    numbers out;
    in_context([&](auto& c, auto& kept) {
      auto const y = layer_.forward(c, input(), kept);
      if constexpr (requires { c.stream.synchronize(); }) c.stream.synchronize();
      out.assign(y.data(), y.data() + y.size());
    });
    return out;
  }

  [[nodiscard]] numbers backward(numbers const& r, bool overwrite_gradients) {
    numbers out;
    in_context([&](auto& c, auto& kept) {
      c.overwrite_gradients = overwrite_gradients;
      auto const y = layer_.forward(c, input(), kept);
      auto const dx = layer_.backward_input(c, {r.data(), y.extents()}, kept);
      layer_.backward_weight(c, kept);
      if constexpr (requires { c.stream.synchronize(); }) c.stream.synchronize();
      out.assign(dx.data(), dx.data() + dx.size());
    });
    return out;
  }

  /// What a layer can add to its results is there once.
  void check_additions(numbers const& r, numbers const& dx) {
    auto const y = run_forward();
    auto const onto_y = next(y.size()), onto_x = next(dx.size());
    auto const view = [&](numbers const& of) -> matrix_view<ring const> {
      return {of.data(), {rows_, static_cast<index>(of.size()) / rows_}};
    };
    auto const check = [](char const* pass_name, auto const& sum, numbers const& result,
                          numbers const& onto) {
      bool right = static_cast<std::size_t>(sum.size()) == result.size();
      for (std::size_t i = 0; right && i < result.size(); ++i)
        right = sum.data()[i] == result[i] + onto[i];
      require(right, "check_ring_layer: ", pass_name, " does not add what it is given to add");
    };
    in_context([&](auto& c, auto& kept) {
      auto const y_sum = forward_onto(layer_, c, input(), kept, view(onto_y));
      auto const dx_sum = backward_input_onto(layer_, c, view(r), kept, view(onto_x));
      if constexpr (requires { c.stream.synchronize(); }) c.stream.synchronize();
      check("forward", y_sum, y, onto_y);
      check("backward_input", dx_sum, dx, onto_x);
    });
  }

  void compare(std::string_view pass_name, std::string_view what, numbers& variables,
               numbers const& gradient, numbers const& r) {
    require(gradient.size() == variables.size(), "check_ring_layer: ", pass_name, " gives ",
            gradient.size(), " numbers for the ", variables.size(), " of ", what);
    auto const v = next(variables.size());
    auto const here = run_forward();
    auto const kept = variables;
    ring predicted = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      variables[i] += h * v[i];
      predicted += gradient[i] * v[i];
    }
    auto const there = run_forward();
    variables = kept;
    ring measured = 0;  // h times the change of <r, f>
    for (std::size_t i = 0; i < r.size(); ++i) measured += r[i] * (there[i] - here[i]);
    require(measured == h * predicted, "check_ring_layer: ", pass_name,
            " does not give the gradient of ", what);
  }

  Layer& layer_;
  index rows_;
  index width_;
  ring_layer_options options_;
  int made_ = 0;
  numbers x_;
  std::vector<parameter_base<ring>*> parameters_;
  std::vector<numbers> values_;
  std::vector<numbers> gradients_;
};

}  // namespace detail

/// Throws `error` naming the pass and tensor unless the gradients that `layer` (a copy; its
/// parameters are bound to random values) computes for an input of [rows, width] are those of its
/// forward pass. Elements are std::uint64_t; the ops of `Stream`'s device must have been included.
template <class Stream, class Layer>
requires layer<Layer, Stream>
void check_ring_layer(Layer layer, index rows, index width,
                      ring_layer_options const& options = {}) {
  detail::ring_checker<Layer, Stream>(layer, rows, width, options).run();
}

}  // namespace parallel::conformance
