// The factor of adaptive clipping in edge cases; clip_gradients_test.cpp tests clipping as a whole.
#include <doctest/doctest.h>

#include <parallel/train/clipping.hpp>

namespace clipping_test {

using parallel::train::adaptive_factor;

TEST_CASE("adaptive clipping: rows below the threshold are unchanged, others are scaled to it") {
  CHECK(adaptive_factor(2.0, 1.0, 0.5) == 1.0);
  CHECK(adaptive_factor(2.0, 4.0, 0.5) == 0.25);
  CHECK(adaptive_factor(0.0, 4.0, 0.5) == 0.0);
  CHECK(adaptive_factor(2.0, 0.0, 0.5) == 1.0);
  CHECK(adaptive_factor(0.0, 0.0, 0.5) == 1.0);
}

}  // namespace clipping_test
