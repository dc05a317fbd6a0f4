#include <doctest/doctest.h>

#include <mpt/train/sequences.hpp>

namespace sequences_test {

TEST_CASE("labels are ids moved left by one, and -100 at the end of each row") {
  mpt::sequences const batch({1, 2, 3, 4, 5, 6}, 3);
  CHECK(batch.count() == 2);
  auto const all = batch.view({0, 2});
  std::vector<std::int32_t> const labels(all.labels.span().begin(), all.labels.span().end());
  CHECK(labels == std::vector<std::int32_t>{2, 3, -100, 5, 6, -100});
  CHECK(all.loss_tokens == 4);
  auto const second = batch.view({1, 2});
  CHECK(second.ids(0) == 4);
  CHECK(second.labels(0) == 5);
  CHECK(second.sequences == 1);
  CHECK(second.length == 3);
  CHECK(second.loss_tokens == 2);
}

TEST_CASE("ids that do not divide into rows are refused") {
  CHECK_THROWS_WITH(mpt::sequences({1, 2, 3}, 2),
                    "a batch of 3 ids does not divide into sequences of 2");
}

}  // namespace sequences_test
