// Tests of row_length. golden_test.cpp compares its results with LLM Foundry's collator.
#include <vector>

#include <doctest/doctest.h>

#include <mpt/finetune/row_trimming.hpp>

TEST_CASE("row trimming: rows have max_seq_len, or the length that the longest row needs") {
  using mpt::finetune::row_length;
  using enum mpt::finetune::row_trimming;
  std::vector<mpt::finetune::bin> const bins = {{5, {0, 1}}, {13, {2}}};
  CHECK(row_length(bins, 64, none, 1) == 64);
  CHECK(row_length(bins, 64, to_multiple, 1) == 16);
  CHECK(row_length(bins, 64, to_multiple, 0) == 64);  // the first batch of a run
  CHECK(row_length(bins, 64, to_longest, 0) == 13);
  CHECK(row_length(bins, 64, to_longest, 0, 12) == 24);  // a multiple of the granule
  CHECK(row_length(bins, 64, to_multiple, 1, 12) == 24);
  CHECK(row_length(bins, 14, to_multiple, 1) == 14);
  CHECK(row_length({}, 64, to_multiple, 1) == 8);  // a rank without rows still has a length
}
