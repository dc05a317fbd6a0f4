#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/layer/check.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/pointwise/bias.hpp>
#include <parallel/ops/reference.hpp>

namespace linear_layer_test {
namespace {

TEST_CASE("linear layer: gradients are those of the forward pass, with and without bias") {
  parallel::linear<double> layer{.weight = {"up.weight", {5, 3}}, .bias = {"up.bias", {5}}};
  CHECK(parallel::check_layer(layer, 4, 3, {.sequence = 2}).compared == 4 * 3 + 5 * 3 + 5);
  layer.bias = {};
  CHECK(parallel::check_layer(layer, 4, 3, {.sequence = 2}).compared == 4 * 3 + 5 * 3);
}

TEST_CASE("linear layer: multiplies by the transpose of its weight, stored [out, in]") {
  parallel::linear<double> layer{.weight = {"w", {2, 3}}, .bias = {"b", {2}}};
  std::vector<double> weight = {1, 2, 3, 4, 5, 6};
  std::vector<double> bias = {10, 20};
  std::vector<double> const x = {1, 0, -1, 2, 2, 2};
  layer.weight.data = weight.data();
  layer.bias.data = bias.data();
  std::vector<std::byte> space(4096);
  parallel::arena memory({nullptr, space.data(), space.size()});
  parallel::reference::stream s;
  parallel::context<parallel::reference::stream> c{s, memory};
  parallel::linear<double>::saved state;
  auto const y = layer.forward(c, {x.data(), {2, 3}}, state);
  CHECK(std::vector<double>(y.span().begin(), y.span().end()) ==
        std::vector<double>{8, 18, 22, 50});
}

TEST_CASE("linear layer: its weight is visited before its bias") {
  parallel::linear<float> layer{.weight = {"w", {2, 3}}, .bias = {"b", {2}}};
  std::vector<std::string> names;
  layer.visit_parameters([&](auto& p) { names.push_back(p.name); });
  CHECK(names == std::vector<std::string>{"w", "b"});
}

}  // namespace
}  // namespace linear_layer_test
