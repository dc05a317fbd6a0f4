#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/layer/activation.hpp>
#include <parallel/layer/check.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/pointwise/activation.hpp>
#include <parallel/ops/pointwise/bias.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/reference.hpp>

namespace feed_forward_test {
namespace {

using parallel::index;
using layer_type = parallel::feed_forward<parallel::activation<double>>;
using enum parallel::ops::activation_kind;

parallel::linear<double> dense(std::string const& name, index out, index in, bool biased) {
  parallel::linear<double> layer;
  layer.weight = {name + ".weight", {out, in}};
  if (biased) layer.bias = {name + ".bias", {out}};
  return layer;
}

layer_type make(bool gated, bool biased, parallel::ops::activation_kind kind) {
  layer_type layer;
  layer.up = dense("up", 5, 4, biased);
  if (gated) layer.gate = dense("gate", 5, 4, biased);
  layer.down = dense("down", 4, 5, biased);
  layer.activate.kind = kind;
  return layer;
}

TEST_CASE("feed-forward layer: the gradients of both forms are those of the forward pass") {
  for (bool const gated : {false, true})
    for (bool const biased : {false, true})
      for (auto const kind : {gelu, gelu_tanh, quick_gelu, silu}) {
        CAPTURE(gated);
        CAPTURE(biased);
        CAPTURE(static_cast<int>(kind));
        index const parameters = (gated ? 3 : 2) * 20 + (biased ? (gated ? 14 : 9) : 0);
        CHECK(parallel::check_layer(make(gated, biased, kind), 3, 4, {.sequence = 3}).compared ==
              12 + parameters);
      }
}

/// The same with one matrix for gate and up.
layer_type make_packed(bool biased) {
  auto layer = make(false, biased, silu);
  layer.up = dense("gate_up", 10, 4, biased);
  layer.up_has_gate = true;
  return layer;
}

TEST_CASE("feed-forward layer: one matrix for gate and up gives the numbers of two") {
  for (bool const biased : {false, true})
    CHECK(parallel::check_layer(make_packed(biased), 3, 4, {.sequence = 3}).compared ==
          12 + 60 + (biased ? 14 : 0));
  std::vector<double> values(60), x{1, -2, 3, 0.5};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i * i));
  auto packed = make_packed(false);
  auto apart = make(true, false, silu);
  packed.up.weight.data = apart.gate.weight.data = values.data();
  apart.up.weight.data = values.data() + 20;
  packed.down.weight.data = apart.down.weight.data = values.data() + 40;
  std::vector<std::byte> space(1 << 16);
  parallel::arena memory({nullptr, space.data(), space.size()});
  parallel::reference::stream s;
  parallel::context<parallel::reference::stream> c{s, memory};
  layer_type::saved state, other_state;
  auto const y = packed.forward(c, {x.data(), {1, 4}}, state);
  auto const expected = apart.forward(c, {x.data(), {1, 4}}, other_state);
  auto const dx = packed.backward_input(c, {x.data(), {1, 4}}, state);
  auto const expected_dx = apart.backward_input(c, {x.data(), {1, 4}}, other_state);
  for (index i = 0; i < 4; ++i) {
    CHECK(y(0, i) == expected(0, i));
    CHECK(dx(0, i) == doctest::Approx(expected_dx(0, i)).epsilon(1e-14));
  }
}

TEST_CASE("feed-forward layer: a constant gate multiplies by f(gate)") {
  // f = relu and the gate's weights 0, its biases 2: y = down(2 up(x))
  auto layer = make(true, true, relu);
  auto plain = make(false, true, relu);
  std::vector<double> const up(20, 0.25), down(20, 0.5), zeros(20, 0.0), twos(5, 2.0),
      zero_bias(5, 0.0);
  auto const bind = [](auto& parameter, std::vector<double> const& values) {
    parameter.data = const_cast<double*>(values.data());
  };
  for (auto* const network : {&layer, &plain}) {
    bind(network->up.weight, up);
    bind(network->up.bias, zero_bias);
    bind(network->down.weight, down);
    bind(network->down.bias, zero_bias);
  }
  bind(layer.gate.weight, zeros);
  bind(layer.gate.bias, twos);
  std::vector<double> const x{1, 2, 3, 4};
  std::vector<std::byte> space(1 << 16);
  parallel::arena memory({nullptr, space.data(), space.size()});
  parallel::reference::stream s;
  parallel::context<parallel::reference::stream> c{s, memory};
  layer_type::saved state, plain_state;
  auto const y = layer.forward(c, {x.data(), {1, 4}}, state);
  auto const half = plain.forward(c, {x.data(), {1, 4}}, plain_state);
  for (index i = 0; i < 4; ++i) {
    CHECK(half(0, i) == 5 * 0.5 * 2.5);
    CHECK(y(0, i) == 2 * half(0, i));
  }
}

TEST_CASE("feed-forward layer: parameters are visited in order, the gate only where there is one") {
  std::vector<std::string> names;
  auto const add_name = [&](auto& p) { names.push_back(p.name); };
  make(false, true, gelu).visit_parameters(add_name);
  make(true, false, gelu).visit_parameters(add_name);
  CHECK(names == std::vector<std::string>{"up.weight", "up.bias", "down.weight", "down.bias",
                                          "up.weight", "gate.weight", "down.weight"});
}

}  // namespace
}  // namespace feed_forward_test
