#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/bin_packing.hpp>

namespace bin_packing_test {

using mpt::finetune::bin;
using mpt::finetune::bin_packer;
using sizes = std::vector<std::uint32_t>;
using numbers = std::vector<std::size_t>;

}  // namespace bin_packing_test

TEST_CASE("bin packing: the longest example goes first, into the first bin with room") {
  using namespace bin_packing_test;
  bin_packer packer(2, 10);
  sizes const tokens = {3, 7, 5, 2, 3};
  auto const rows = packer.pack(numbers{0, 1, 2, 3, 4}, tokens);
  REQUIRE(rows.size() == 2);
  // Bins 7 | 5: the first 3 goes to 7, and that bin moves after 5; the other 3 and 2 go to 5.
  CHECK(rows[0] == bin{10, {1, 0}});
  CHECK(rows[1] == bin{10, {2, 4, 3}});
  CHECK(packer.leftover().empty());
  CHECK(packer.waste() == 0.0);
  CHECK(packer.efficiency() == 1.0);
}

TEST_CASE("bin packing: bins left over open the next batch; those beyond the limit are dropped") {
  using namespace bin_packing_test;
  sizes const tokens = {8, 8, 7, 6, 1};
  bin_packer packer(2, 10);
  CHECK(packer.pack(numbers{0, 1, 2, 3}, tokens) == std::vector<bin>{{8, {0}}, {8, {1}}});
  CHECK(packer.leftover() == std::vector<bin>{{7, {2}}, {6, {3}}});
  CHECK(packer.pack(numbers{4}, tokens) == std::vector<bin>{{8, {2, 4}}, {6, {3}}});
  CHECK(packer.waste() == 0.0);
  bin_packer one_leftover(2, 10, 1);
  (void)one_leftover.pack(numbers{0, 1, 2, 3}, tokens);
  CHECK(one_leftover.leftover() == std::vector<bin>{{7, {2}}});
  CHECK(*one_leftover.waste() == doctest::Approx(13.0 / 29));
  bin_packer no_leftover(2, 10, 0);
  (void)no_leftover.pack(numbers{0, 1, 2, 3}, tokens);
  CHECK(no_leftover.leftover().empty());
}

TEST_CASE("bin packing: as many examples as rows stay apart, and fewer make a short batch") {
  using namespace bin_packing_test;
  sizes const tokens = {1, 1, 1};
  bin_packer packer(3, 10);
  CHECK(packer.pack(numbers{0, 1, 2}, tokens).size() == 3);
  CHECK(packer.pack(numbers{0, 1}, tokens).size() == 2);
  CHECK(packer.flush().empty());
  CHECK(data_test::message_of([&] { (void)packer.pack(numbers{0}, sizes{11}); }) ==
        "an example of 11 tokens does not fit into a row of 10");
}

TEST_CASE("bin packing: every example of random length is in exactly one row") {
  using namespace bin_packing_test;
  std::mt19937 random(7);
  for (int repetition = 0; repetition < 50; ++repetition) {
    sizes tokens(40 + random() % 60);
    for (auto& size : tokens) size = 1 + static_cast<std::uint32_t>(random() % 32);
    bin_packer packer(1 + random() % 6, 32);
    std::vector<int> seen(tokens.size());
    auto const count = [&](std::vector<bin> const& rows) {
      for (auto const& row : rows) {
        std::size_t sum = 0;
        for (auto const example : row.examples) {
          seen[example] += 1;
          sum += tokens[example];
        }
        CHECK(sum == row.tokens);
        CHECK(sum <= 32);
      }
    };
    for (std::size_t first = 0; first < tokens.size(); first += 12) {
      numbers batch;
      for (auto example = first; example < std::min(first + 12, tokens.size()); ++example)
        batch.push_back(example);
      count(packer.pack(batch, tokens));
    }
    while (!packer.leftover().empty()) count(packer.flush());
    CHECK(std::ranges::all_of(seen, [](int times) { return times == 1; }));
  }
}

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
