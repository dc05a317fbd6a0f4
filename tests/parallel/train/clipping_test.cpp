// The factor of adaptive clipping at its edges; the whole is tested in clip_gradients_test.cpp.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <parallel/train/clipping.hpp>

namespace clipping_test {

using parallel::train::adaptive_factor;

TEST_CASE("rows below the threshold are left alone, others come down to it") {
  CHECK(adaptive_factor(2.0, 1.0, 0.5) == 1.0);
  CHECK(adaptive_factor(2.0, 4.0, 0.5) == 0.25);
  CHECK(adaptive_factor(0.0, 4.0, 0.5) == 0.0);
  CHECK(adaptive_factor(2.0, 0.0, 0.5) == 1.0);
  CHECK(adaptive_factor(0.0, 0.0, 0.5) == 1.0);
}

}  // namespace clipping_test
