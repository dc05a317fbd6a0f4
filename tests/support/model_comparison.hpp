// Differences between the results of two runs of MPT.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "support/model_run.hpp"

namespace test {

/// The root mean square of a gradient's error, divided by the root mean square of the exact
/// gradient.
inline double distance(std::vector<double> const& a, std::vector<double> const& exact) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (a.at(i) - exact[i]) * (a.at(i) - exact[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(error / size);
}

/// The largest absolute value of all gradients.
inline double largest(model_outcome const& outcome) {
  double out = 0;
  for (auto const& [name, gradient] : outcome.gradients)
    for (double const g : gradient) out = std::max(out, std::abs(g));
  return out;
}

/// Checks that two runs have the same results, bit by bit.
inline void check_same_bits(model_outcome const& found, model_outcome const& expected) {
  CHECK(found.loss == expected.loss);
  CHECK(found.evaluated == expected.evaluated);
  CHECK(found.tokens == expected.tokens);
  CHECK(found.squared_norm == expected.squared_norm);
  CHECK(found.gradients == expected.gradients);
}

/// Checks that two runs in fp64 agree: sums to a relative 1e-13, gradients to 1e-12 of the largest.
inline void check_equal(model_outcome const& found, model_outcome const& expected) {
  double const largest_gradient = largest(expected);
  REQUIRE(largest_gradient > 0);
  CHECK(found.tokens == expected.tokens);
  CHECK(std::abs(found.loss - expected.loss) <= 1e-13 * expected.loss);
  CHECK(std::abs(found.evaluated - expected.evaluated) <= 1e-13 * expected.evaluated);
  CHECK(std::abs(found.squared_norm - expected.squared_norm) <= 1e-12 * expected.squared_norm);
  REQUIRE(found.gradients.size() == expected.gradients.size());
  double worst = 0;
  for (auto const& [name, gradient] : expected.gradients) {
    auto const& other = found.gradients.at(name);
    REQUIRE(other.size() == gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i)
      worst = std::max(worst, std::isnan(other[i]) ? 1e300 : std::abs(other[i] - gradient[i]));
  }
  CHECK(worst <= 1e-12 * largest_gradient);
}

}  // namespace test
