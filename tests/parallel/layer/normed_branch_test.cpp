// normed_branch: norms in front of a layer, behind it or on both sides, and a factor of its result.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/layer/check.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/layer/normed_branch.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/norm/norm.hpp>
#include <parallel/ops/pointwise/bias.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/reference.hpp>

namespace normed_branch_test {
namespace {

using parallel::index;
using parallel::linear;
using parallel::norm;
using branch = parallel::normed_branch<linear<double>>;

norm<double> rms_norm(std::string const& name) {
  return {.weight = {name, {4}}, .bias = {}, .rule = parallel::norm_rule::rms};
}

branch make(bool has_input_norm, bool has_output_norm, double scale) {
  branch out{.inner =
                 parallel::sequential(has_input_norm ? rms_norm("input_norm") : norm<double>{},
                                      linear<double>{.weight = {"layer", {4, 4}}, .bias = {}})};
  if (has_output_norm) out.output_norm = rms_norm("output_norm");
  out.scale = scale;
  return out;
}

TEST_CASE("normed branch: gradients with norms in front, behind, on both sides, and scaled") {
  for (bool const has_input_norm : {false, true})
    for (bool const has_output_norm : {false, true})
      for (double const scale : {1.0, 0.25}) {
        CAPTURE(has_input_norm);
        CAPTURE(has_output_norm);
        CAPTURE(scale);
        index const compared = 12 + 16 + (has_input_norm ? 4 : 0) + (has_output_norm ? 4 : 0);
        auto const layer = make(has_input_norm, has_output_norm, scale);
        CHECK(parallel::check_layer(layer, 3, 4, {.sequence = 3}).compared == compared);
        CHECK(parallel::check_layer(parallel::residual(layer), 3, 4, {.sequence = 3}).compared ==
              compared);
      }
}

TEST_CASE("normed branch: parameters are visited in the order in which they are used") {
  std::vector<std::string> names;
  auto const add_name = [&](auto& parameter) { names.push_back(parameter.name); };
  make(true, true, 1).visit_parameters(add_name);
  make(false, false, 1).visit_parameters(add_name);
  CHECK(names == std::vector<std::string>{"input_norm", "layer", "output_norm", "layer"});
}

TEST_CASE("normed branch: the factor is that of the norm's result, not of the residual stream") {
  auto layer = make(false, true, 0.5);
  std::vector<double> identity(16, 0.0), weight(4, 1.0), x{3, 3, 3, 3};
  for (std::size_t i = 0; i < 4; ++i) identity[5 * i] = 2;
  std::get<1>(layer.inner.layers).weight.data = identity.data();
  layer.output_norm.weight.data = weight.data();
  std::vector<std::byte> space(1 << 16);
  parallel::arena memory({nullptr, space.data(), space.size()});
  parallel::reference::stream s;
  parallel::context<parallel::reference::stream> c{s, memory};
  branch::saved state;
  auto const y = layer.forward(c, {x.data(), {1, 4}}, state, {x.data(), {1, 4}});
  for (index i = 0; i < 4; ++i) CHECK(y(0, i) == doctest::Approx(3.5).epsilon(1e-6));
}

}  // namespace
}  // namespace normed_branch_test
