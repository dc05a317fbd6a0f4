#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/layer/check.hpp>
#include <parallel/layer/layer_norm.hpp>
#include <parallel/ops/reference/layer_norm.hpp>

namespace layer_norm_layer_test {
namespace {

parallel::layer_norm<double> with_bias(parallel::index width) {
  return {.weight = {"norm.weight", {width}}, .bias = {"norm.bias", {width}}, .eps = 1e-5F};
}

TEST_CASE("layer_norm's gradients are those of its forward pass, with and without bias") {
  CHECK(parallel::check_layer(with_bias(9), 4, 9).compared == 4 * 9 + 9 + 9);
  auto bare = with_bias(9);
  bare.bias = {};
  CHECK(parallel::check_layer(bare, 4, 9).compared == 4 * 9 + 9);
}

TEST_CASE("layer_norm's gradients hold where eps matters") {
  auto layer = with_bias(6);
  layer.eps = 0.25F;
  CHECK_NOTHROW(parallel::check_layer(layer, 3, 6, {.scale = 0.5}));
}

TEST_CASE("layer_norm with unit weight gives rows of mean 0 and variance 1") {
  parallel::layer_norm<double> layer = with_bias(64);
  std::vector<double> weight(64, 1.0);
  std::vector<double> bias(64, 0.0);
  layer.weight.data = weight.data();
  layer.bias.data = bias.data();
  std::vector<double> x(3 * 64);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i * i)) * 10 + 5;
  std::vector<std::byte> space(1 << 16);
  parallel::arena memory({nullptr, space.data(), space.size()});
  parallel::reference::stream s;
  parallel::context<parallel::reference::stream> c{s, memory};
  decltype(layer)::saved kept;
  auto const y = layer.forward(c, {x.data(), {3, 64}}, kept);
  for (parallel::index r = 0; r < 3; ++r) {
    double sum = 0.0;
    double squares = 0.0;
    for (parallel::index j = 0; j < 64; ++j) {
      sum += y(r, j);
      squares += y(r, j) * y(r, j);
    }
    CHECK(std::fabs(sum / 64) < 1e-12);
    CHECK(std::fabs(squares / 64 - 1.0) < 1e-5);
  }
}

TEST_CASE("layer_norm shows its parameters in order, the bias only when it has one") {
  std::vector<std::string> names;
  auto const note = [&](auto& p) { names.push_back(p.name); };
  auto layer = with_bias(4);
  layer.visit_parameters(note);
  layer.bias = {};
  layer.visit_parameters(note);
  CHECK(names == std::vector<std::string>{"norm.weight", "norm.bias", "norm.weight"});
}

}  // namespace
}  // namespace layer_norm_layer_test
