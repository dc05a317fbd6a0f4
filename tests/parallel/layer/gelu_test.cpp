#include <doctest/doctest.h>

#include <parallel/layer/check.hpp>
#include <parallel/layer/gelu.hpp>
#include <parallel/ops/reference/gelu.hpp>

namespace gelu_layer_test {
namespace {

TEST_CASE("gelu's gradient is that of its forward pass, also far from zero") {
  for (double const scale : {0.1, 1.0, 3.0})
    CHECK(parallel::check_layer(parallel::gelu<double>{}, 5, 7, {.scale = scale}).compared == 35);
}

TEST_CASE("gelu has no parameters") {
  int parameters = 0;
  parallel::gelu<float>{}.visit_parameters([&](auto&) { ++parameters; });
  CHECK(parameters == 0);
}

}  // namespace
}  // namespace gelu_layer_test
