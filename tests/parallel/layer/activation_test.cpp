#include <doctest/doctest.h>

#include <parallel/layer/activation.hpp>
#include <parallel/layer/check.hpp>
#include <parallel/ops/pointwise/activation.hpp>
#include <parallel/ops/reference.hpp>

namespace activation_layer_test {
namespace {

TEST_CASE("activation layer: the gradient is that of the forward pass, also far from zero") {
  using enum parallel::ops::activation_kind;
  for (auto const kind : {gelu, gelu_tanh, quick_gelu, silu, relu})
    for (double const scale : {0.1, 1.0, 3.0}) {
      CAPTURE(static_cast<int>(kind));
      // differences with a small step keep clear of relu's corner at 0
      CHECK(parallel::check_layer(
                parallel::activation<double>{kind}, 5, 7,
                {.sequence = 5, .scale = scale, .difference = kind == relu ? 1e-6 : 1e-3})
                .compared == 35);
    }
}

TEST_CASE("activation layer: has no parameters") {
  int parameters = 0;
  parallel::activation<float>{}.visit_parameters([&](auto&) { ++parameters; });
  CHECK(parameters == 0);
}

}  // namespace
}  // namespace activation_layer_test
