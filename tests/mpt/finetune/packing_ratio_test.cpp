#include <doctest/doctest.h>

#include <mpt/data/scratch.hpp>
#include <mpt/finetune/packing_ratio.hpp>
#include <vector>

TEST_CASE("packing ratio: auto takes the last ratio before one that leaves examples over") {
  using namespace mpt::finetune;
  // Four examples of 125 tokens fill a row of 500; 3.9 is the last tried ratio below 4.
  std::vector<std::uint32_t> const tokens(2000, 125);
  CHECK(auto_packing_ratio(tokens, 10, 500) == 3.9);
  auto const profiles = profile_packing(tokens, 10, 500);
  REQUIRE(profiles.size() == 20);
  CHECK(profiles.front().ratio == 1.0);
  CHECK(profiles.front().padding == doctest::Approx(0.75));
  CHECK(profiles.back().ratio == 5.0);
  CHECK(profiles.back().waste == doctest::Approx(0.2));
  CHECK(auto_packing_ratio_of_shuffled(tokens, 3, 10, 500) == 3.9);
}

TEST_CASE("packing ratio: short rows, long examples and too few examples are not packed") {
  using namespace mpt::finetune;
  CHECK(auto_packing_ratio(std::vector<std::uint32_t>(100, 10), 4, 100) == 1.0);
  CHECK(auto_packing_ratio(std::vector<std::uint32_t>(100, 400), 4, 500) == 1.0);
  CHECK(auto_packing_ratio(std::vector<std::uint32_t>(3, 10), 4, 500) == 1.0);
  CHECK(profile_packing({}, 4, 500).empty());
  CHECK(data_test::message_of([] { (void)profile_packing({}, 4, 100); }) ==
        "packing is profiled for at least one row of more than 100 tokens, found 4 of 100");
}
