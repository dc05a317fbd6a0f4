// How far what two runs of MPT computed is apart.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "support/model_run.hpp"

namespace test {

/// Of a tensor's gradient from the exact one, over the root mean square of that.
inline double distance(std::vector<double> const& a, std::vector<double> const& exact) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (a.at(i) - exact[i]) * (a.at(i) - exact[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(error / size);
}

/// The largest of all gradients, without its sign.
inline double largest(model_outcome const& of) {
  double out = 0;
  for (auto const& [name, gradient] : of.gradients)
    for (double const g : gradient) out = std::max(out, std::abs(g));
  return out;
}

/// In fp64: sums to 1e-13 of themselves, gradients to 1e-12 of the largest.
inline void check_equal(model_outcome const& found, model_outcome const& one) {
  double const most = largest(one);
  REQUIRE(most > 0);
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
  CHECK(worst <= 1e-12 * most);
}

}  // namespace test
