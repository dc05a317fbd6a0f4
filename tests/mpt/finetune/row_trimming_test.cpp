// Lengths of rows; that they are those of LLM Foundry's collator, golden_test.cpp holds.
#include <vector>

#include <doctest/doctest.h>

#include <mpt/finetune/row_trimming.hpp>

TEST_CASE("rows are as long as they may be, or as the longest needs") {
  using mpt::finetune::row_length;
  using enum mpt::finetune::row_trimming;
  std::vector<mpt::finetune::bin> const bins = {{5, {0, 1}}, {13, {2}}};
  CHECK(row_length(bins, 64, none, 1) == 64);
  CHECK(row_length(bins, 64, to_multiple, 1) == 16);
  CHECK(row_length(bins, 64, to_multiple, 0) == 64);  // the first batch of a run
  CHECK(row_length(bins, 64, to_longest, 0) == 13);
  CHECK(row_length(bins, 64, to_longest, 0, 12) == 24);  // what ranks divide rows by
  CHECK(row_length(bins, 64, to_multiple, 1, 12) == 24);
  CHECK(row_length(bins, 14, to_multiple, 1) == 14);
  CHECK(row_length({}, 64, to_multiple, 1) == 8);  // a rank without rows has a shape, too
}
