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
