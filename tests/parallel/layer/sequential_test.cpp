#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/layer/activation.hpp>
#include <parallel/layer/check.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/layer/norm.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/reference/activation.hpp>
#include <parallel/ops/reference/bias.hpp>
#include <parallel/ops/reference/elementwise.hpp>
#include <parallel/ops/reference/layer_norm.hpp>
#include <parallel/ops/reference/matmul.hpp>
#include <parallel/ops/reference/rms_norm.hpp>

namespace sequential_test {
namespace {

using parallel::activation;
using parallel::linear;
using parallel::norm;
using parallel::residual;
using parallel::sequential;

linear<double> dense(std::string const& name, parallel::index out, parallel::index in) {
  return {.weight = {name + ".weight", {out, in}}, .bias = {name + ".bias", {out}}};
}
norm<double> make_norm(std::string const& name, parallel::index width) {
  return {.weight = {name + ".weight", {width}}, .bias = {name + ".bias", {width}}};
}

TEST_CASE("a sequence's gradients follow from those of its layers") {
  auto const net = sequential(dense("up", 6, 4), activation<double>{}, dense("down", 3, 6));
  CHECK(parallel::check_layer(net, 3, 4, {.scale = 0.7}).compared == 12 + 24 + 6 + 18 + 3);
}

TEST_CASE("a sequence of one layer is that layer") {
  CHECK(parallel::check_layer(sequential(activation<double>{}), 2, 3).compared == 6);
}

TEST_CASE("a residual connection adds its input and its gradient") {
  CHECK_NOTHROW(parallel::check_layer(residual(activation<double>{}), 3, 5));
  CHECK_NOTHROW(parallel::check_layer(residual(dense("mix", 5, 5)), 3, 5));
}

TEST_CASE("sequences and residuals nest: a transformer's feed-forward block") {
  auto const block = sequential(residual(sequential(make_norm("norm_1", 4), dense("mix", 4, 4))),
                                residual(sequential(make_norm("norm_2", 4), dense("up", 8, 4),
                                                    activation<double>{}, dense("down", 4, 8))));
  CHECK_NOTHROW(parallel::check_layer(block, 3, 4, {.scale = 0.5}));
}

TEST_CASE("a sequence shows its parameters first layer first") {
  auto net = residual(sequential(make_norm("norm", 4), dense("up", 4, 4)));
  std::vector<std::string> names;
  net.visit_parameters([&](auto& p) { names.push_back(p.name); });
  CHECK(names == std::vector<std::string>{"norm.weight", "norm.bias", "up.weight", "up.bias"});
}

}  // namespace
}  // namespace sequential_test
