// Exact ring tests of the measurement of tensors: it is right, and the same in every layout.
#include <doctest/doctest.h>

#include <vector>

#include "support/ring/ring_run.hpp"

namespace tensor_squares_test {

using test::outcome;
using test::ring;
using test::run;

ring square(std::vector<ring> const& values) {
  ring sum = 0;
  for (ring const value : values) sum += value * value;
  return sum;
}

TEST_CASE("measured tensors: equal in every layout, and measuring changes no bit of training") {
  outcome const plain = run({.frozen = {"block.1.mix"}});
  outcome expected = run({.frozen = {"block.1.mix"}, .measure = true});
  for (auto const level : test::all_levels) {
    for (int const ranks : {1, 2, 3, 5})
      CHECK(run({.ranks = ranks, .level = level, .frozen = {"block.1.mix"}, .measure = true}) ==
            expected);
    CHECK(run({.ranks = 3,
               .level = level,
               .frozen = {"block.1.mix"},
               .measure = true,
               .replicas = 2}) == expected);
  }
  REQUIRE(expected.tensors.size() == test::steps);
  REQUIRE(expected.tensors.back().size() == plain.gradients.size());
  CHECK(plain.tensors.empty());
  ring whole = 0;
  for (auto const& tensor : expected.tensors.back()) {
    CHECK(tensor.gradient == square(plain.gradients.at(tensor.name)));
    CHECK(tensor.weights == square(plain.parameters.at(tensor.name)));
    whole += tensor.gradient;
  }
  CHECK(whole == plain.squared_norms.back());
  expected.tensors.clear();
  CHECK(expected == plain);
}

TEST_CASE("measured tensors: moment and update follow the optimizer's rule") {
  // In the first step the momentum is the gradient, and the update is -5 momentum.
  auto const first = run({.ranks = 2, .num_steps = 1, .measure = true});
  for (auto const& tensor : first.tensors.at(0)) {
    CHECK(tensor.moment == tensor.gradient);
    CHECK(tensor.update == 25 * tensor.gradient);
  }
}

}  // namespace tensor_squares_test
