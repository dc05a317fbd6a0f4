#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/layer/check.hpp>
#include <parallel/layer/gelu.hpp>
#include <parallel/layer/layer_norm.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/reference/bias.hpp>
#include <parallel/ops/reference/elementwise.hpp>
#include <parallel/ops/reference/gelu.hpp>
#include <parallel/ops/reference/layer_norm.hpp>
#include <parallel/ops/reference/matmul.hpp>

namespace sequential_test {
namespace {

using parallel::gelu;
using parallel::layer_norm;
using parallel::linear;
using parallel::residual;
using parallel::sequential;

linear<double> dense(std::string const& name, parallel::index out, parallel::index in) {
  return {.weight = {name + ".weight", {out, in}}, .bias = {name + ".bias", {out}}};
}
layer_norm<double> norm(std::string const& name, parallel::index width) {
  return {.weight = {name + ".weight", {width}}, .bias = {name + ".bias", {width}}};
}

TEST_CASE("a sequence's gradients follow from those of its layers") {
  auto const net = sequential(dense("up", 6, 4), gelu<double>{}, dense("down", 3, 6));
  CHECK(parallel::check_layer(net, 3, 4, {.scale = 0.7}).compared == 12 + 24 + 6 + 18 + 3);
}

TEST_CASE("a sequence of one layer is that layer") {
  CHECK(parallel::check_layer(sequential(gelu<double>{}), 2, 3).compared == 6);
}

TEST_CASE("a residual connection adds its input and its gradient") {
  CHECK_NOTHROW(parallel::check_layer(residual(gelu<double>{}), 3, 5));
  CHECK_NOTHROW(parallel::check_layer(residual(dense("mix", 5, 5)), 3, 5));
}

TEST_CASE("sequences and residuals nest: a transformer's feed-forward block") {
  auto const block = sequential(residual(sequential(norm("norm_1", 4), dense("mix", 4, 4))),
                                residual(sequential(norm("norm_2", 4), dense("up", 8, 4),
                                                    gelu<double>{}, dense("down", 4, 8))));
  CHECK_NOTHROW(parallel::check_layer(block, 3, 4, {.scale = 0.5}));
}

TEST_CASE("a sequence shows its parameters first layer first") {
  auto net = residual(sequential(norm("norm", 4), dense("up", 4, 4)));
  std::vector<std::string> names;
  net.visit_parameters([&](auto& p) { names.push_back(p.name); });
  CHECK(names == std::vector<std::string>{"norm.weight", "norm.bias", "up.weight", "up.bias"});
}

}  // namespace
}  // namespace sequential_test
