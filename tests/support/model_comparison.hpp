// Whether two runs of MPT in fp64 computed the same: sums to 1e-13 of themselves, gradients to
// 1e-12 of the largest.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "support/model_run.hpp"

namespace test {

inline void check_equal(model_outcome const& found, model_outcome const& one) {
  double largest = 0;
  for (auto const& [name, gradient] : one.gradients)
    for (double const g : gradient) largest = std::max(largest, std::abs(g));
  REQUIRE(largest > 0);
  CHECK(found.tokens == one.tokens);
  CHECK(std::abs(found.loss - one.loss) <= 1e-13 * one.loss);
  CHECK(std::abs(found.evaluated - one.evaluated) <= 1e-13 * one.evaluated);
  CHECK(std::abs(found.squared_norm - one.squared_norm) <= 1e-12 * one.squared_norm);
  REQUIRE(found.gradients.size() == one.gradients.size());
  double worst = 0;
  for (auto const& [name, gradient] : one.gradients) {
    auto const& other = found.gradients.at(name);
    REQUIRE(other.size() == gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i)
      worst = std::max(worst, std::isnan(other[i]) ? 1e300 : std::abs(other[i] - gradient[i]));
  }
  CHECK(worst <= 1e-12 * largest);
}

}  // namespace test
