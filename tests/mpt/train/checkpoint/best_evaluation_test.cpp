#include <limits>

#include <doctest/doctest.h>

#include <mpt/train/checkpoint/best_evaluation.hpp>

TEST_CASE("best evaluation: the best checkpoint is the one with the least evaluation loss") {
  mpt::best_evaluation best;
  CHECK(!best.claim_best(0));  // not evaluated
  CHECK(!best.loss());
  best.record_evaluation(4, 2.0);
  CHECK(!best.claim_best(5));  // a later batch
  CHECK(best.claim_best(4));
  CHECK(best.loss() == 2.0);
  best.record_evaluation(8, 2.0);
  CHECK(!best.claim_best(8));  // no better
  best.record_evaluation(9, std::numeric_limits<double>::quiet_NaN());
  CHECK(!best.claim_best(9));
  best.record_evaluation(12, 1.5);
  CHECK(best.claim_best(12));
  mpt::best_evaluation resumed;
  resumed.restore(best.loss());
  resumed.record_evaluation(16, 1.75);
  CHECK(!resumed.claim_best(16));
  resumed.record_evaluation(20, 1.25);
  CHECK(resumed.claim_best(20));
}
