// residual_pair: two residual branches in a row or side by side.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/layer/activation.hpp>
#include <parallel/layer/check.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/layer/recompute.hpp>
#include <parallel/layer/residual_pair.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/pointwise/activation.hpp>
#include <parallel/ops/pointwise/bias.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/reference.hpp>

namespace residual_pair_test {
namespace {

using parallel::activation;
using parallel::linear;
using parallel::recompute;
using parallel::residual;
using parallel::residual_pair;
using parallel::sequential;

using branch = recompute<sequential<linear<double>, activation<double>>>;

branch make_branch(std::string const& name, bool recomputes) {
  return recompute(sequential(linear<double>{.weight = {name + ".weight", {3, 3}}, .bias = {}},
                              activation<double>{}),
                   recomputes);
}

residual_pair<branch, branch> make_pair_of_branches(bool is_parallel, bool recomputes) {
  return {residual(make_branch("first", recomputes)), residual(make_branch("second", recomputes)),
          is_parallel};
}

TEST_CASE("residual_pair: gradients of both forms, with and without recomputation") {
  for (bool const is_parallel : {false, true})
    for (bool const recomputes : {false, true})
      CHECK(parallel::check_layer(make_pair_of_branches(is_parallel, recomputes), 4, 3,
                                  {.sequence = 2, .scale = 0.7})
                .compared == 12 + 9 + 9);
}

TEST_CASE("residual_pair: parallel branches both read the input, others follow each other") {
  auto const gelu = [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); };
  for (bool const is_parallel : {false, true}) {
    residual_pair<activation<double>, activation<double>> const pair(
        residual(activation<double>{}), residual(activation<double>{}), is_parallel);
    parallel::reference::stream stream;
    std::vector<std::byte> space(1U << 12U);
    parallel::arena memory({nullptr, space.data(), space.size()});
    parallel::context<parallel::reference::stream> c{
        .stream = stream, .memory = memory, .sequence = 2};
    std::vector<double> const x{0.5, -1.25};
    decltype(pair)::saved state;
    auto const y = pair.forward(c, {x.data(), {2, 1}}, state);
    for (parallel::index row = 0; row < 2; ++row) {
      double const input = x[static_cast<std::size_t>(row)];
      double const sum = input + gelu(input);
      CHECK(y(row, 0) == doctest::Approx(sum + gelu(is_parallel ? input : sum)).epsilon(1e-12));
    }
  }
}

}  // namespace
}  // namespace residual_pair_test
