#include <limits>

#include <doctest/doctest.h>

#include <mpt/train/best_evaluation.hpp>

TEST_CASE("the best checkpoint is the one that was evaluated with the least loss") {
  mpt::best_evaluation best;
  CHECK(!best.take(0));  // not evaluated
  CHECK(!best.loss());
  best.evaluated(4, 2.0);
  CHECK(!best.take(5));  // a later batch
  CHECK(best.take(4));
  CHECK(best.loss() == 2.0);
  best.evaluated(8, 2.0);
  CHECK(!best.take(8));  // no better
  best.evaluated(9, std::numeric_limits<double>::quiet_NaN());
  CHECK(!best.take(9));
  best.evaluated(12, 1.5);
  CHECK(best.take(12));
  mpt::best_evaluation resumed;
  resumed.restore(best.loss());
  resumed.evaluated(16, 1.75);
  CHECK(!resumed.take(16));
  resumed.evaluated(20, 1.25);
  CHECK(resumed.take(20));
}
