// Experts: the passes of the layer against differences, plain loops over rows and experts, and each
// other.
#include <doctest/doctest.h>

#include <string>

#include <parallel/layer/activation.hpp>
#include <parallel/layer/check.hpp>
#include <parallel/layer/experts.hpp>

namespace experts_test {
namespace {

using parallel::index;
using layer_type = parallel::experts<parallel::activation<double>>;

layer_type make(bool is_gated, index experts, index top_k) {
  layer_type layer;
  layer.choose.weight = {"router", {experts, 4}};
  layer.choose.top_k = top_k;
  layer.up = {"up", {experts * 3, 4}};
  if (is_gated) layer.gate = {"gate", {experts * 3, 4}};
  layer.down = {"down", {experts * 3, 4}};
  layer.activate.kind = parallel::ops::activation_kind::silu;
  return layer;
}

TEST_CASE("experts: gradients are those of the forward pass, for every score and norm") {
  using enum parallel::ops::router_score;
  for (auto const score : {softmax, sigmoid})
    for (double const norm : {0.0, 1.0, 2.0})
      for (bool const is_gated : {false, true})
        for (index const top_k : {1, 2, 4}) {
          CAPTURE(norm);
          CAPTURE(is_gated);
          CAPTURE(top_k);
          auto layer = make(is_gated, 4, top_k);
          layer.choose.route = {.score = score, .norm = norm, .scale = 1.5};
          parallel::check_layer(layer, 6, 4, {.sequence = 3, .difference = 1e-4, .tolerance = 1e-6});
        }
}

}  // namespace
}  // namespace experts_test
