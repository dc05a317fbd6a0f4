#include <doctest/doctest.h>

#include <mpt/train/data/skipped_batches.hpp>

namespace skipped_batches_test {

TEST_CASE("skipped batches: neighbours make one range, and a checkpoint restores all") {
  mpt::skipped_batches skipped;
  CHECK(skipped.add(4, 4, "it is cold") == "batch 4: it is cold; it is skipped");
  skipped.add(5, 5, "it is cold");
  CHECK(skipped.add(9, 12, "it is warm") ==
        "batch 12: it is warm; the run goes back to batch 8; the batches from 9 are skipped");
  CHECK(skipped.state().dump() == "[[4,5],[9,12]]");
  mpt::skipped_batches restored;
  restored.restore(skipped.state());
  restored.add(9, 13, "");  // rolled back to 8 once more
  CHECK(restored.state().dump() == "[[4,5],[9,13]]");
  CHECK_THROWS_WITH(restored.restore({{"first", 3}}),
                    "the checkpoint's list of skipped batches is damaged; use another checkpoint");
}

TEST_CASE("skipped batches: a batch that is skipped and then rolled back counts once") {
  mpt::skipped_batches skipped;
  skipped.add(5, 5, "");
  skipped.add(7, 7, "");
  CHECK(skipped.count() == 2);
  CHECK(skipped.add(4, 9, "it is warm") ==
        "batch 9: it is warm; the run goes back to batch 3; the batches from 4 are skipped");
  CHECK(skipped.state().dump() == "[[4,9]]");
  CHECK(skipped.count() == 6);
}

TEST_CASE("skipped batches: ten in a row are too many, ten with others between are not") {
  mpt::skipped_batches skipped;
  for (int batch = 2; batch <= 40; batch += 2) skipped.add(batch, batch, "");
  for (int batch = 41; batch < 50 - 1; ++batch) skipped.add(batch, batch, "");
  CHECK_THROWS_WITH_AS(skipped.add(49, 49, "it is cold"),
                       "batch 49: it is cold, and 10 batches in a row would be skipped; lower the "
                       "learning rate, or resume from an earlier checkpoint",
                       parallel::diverged);
}
}  // namespace skipped_batches_test
