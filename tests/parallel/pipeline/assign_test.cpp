#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <parallel/pipeline/assign.hpp>
#include <parallel/pipeline/schedules.hpp>

namespace assign_test {

using namespace parallel::pipeline;
using parts = std::vector<stage_blocks>;

static_assert(assign_blocks(gpipe(3, 1), 7)[0] == stage_blocks{0, 3, true, false});

TEST_CASE("stage assignment: blocks are divided evenly, and the first stages hold one more") {
  CHECK(assign_blocks(gpipe(1, 1), 5) == parts{{0, 5, true, true}});
  CHECK(assign_blocks(gpipe(3, 1), 8) ==
        parts{{0, 3, true, false}, {3, 6, false, false}, {6, 8, false, true}});
  CHECK(
      assign_blocks(zb_v(2, 2), 6) ==
      parts{{0, 2, true, false}, {2, 4, false, false}, {4, 5, false, false}, {5, 6, false, true}});
}

TEST_CASE(
    "stage assignment: every division of up to 40 blocks is complete, in order, and even to one") {
  for (int stages = 1; stages <= 16; ++stages)
    for (int blocks = stages; blocks <= 40; ++blocks) {
      auto const blocks_by_stage = assign_blocks(gpipe(stages, 1), blocks);
      REQUIRE(std::ssize(blocks_by_stage) == stages);
      CHECK(blocks_by_stage.front().begin == 0);
      CHECK(blocks_by_stage.back().end == blocks);
      for (std::size_t s = 0; s < blocks_by_stage.size(); ++s) {
        CHECK(blocks_by_stage[s].entry == (s == 0));
        CHECK(blocks_by_stage[s].exit == (s + 1 == blocks_by_stage.size()));
        if (s == 0) continue;
        CHECK(blocks_by_stage[s].begin == blocks_by_stage[s - 1].end);
        CHECK(blocks_by_stage[s].size() <= blocks_by_stage[s - 1].size());
        CHECK(blocks_by_stage[s].size() >= blocks_by_stage[0].size() - 1);
      }
    }
}

std::string refusal(schedule const& s, int blocks, std::vector<int> const& by_stage = {}) {
  try {
    (void)assign_blocks(s, blocks, by_stage);
  } catch (parallel::error const& thrown) {
    return thrown.what();
  }
  return "accepted";
}

TEST_CASE("stage assignment: a list gives the number of blocks of each stage") {
  std::vector<int> const uneven = {1, 4, 2};
  CHECK(assign_blocks(gpipe(3, 1), 7, uneven) ==
        parts{{0, 1, true, false}, {1, 5, false, false}, {5, 7, false, true}});
  CHECK(refusal(gpipe(3, 1), 8, uneven) ==
        "gpipe: the list of blocks by stage sums to 7, but the model has 8 blocks");
  CHECK(refusal(interleaved(2, 2, 3), 8, uneven) ==
        "interleaved: the list of blocks by stage has 3 numbers, but there are 6 stages, 3 on each "
        "of 2 ranks");
  CHECK(refusal(gpipe(3, 1), 7, {7, 0, 0}) ==
        "gpipe: the list of blocks by stage gives stage 1 0 blocks; each needs one at least");
}

TEST_CASE(
    "stage assignment: fewer blocks than stages are refused with the possible number of ranks") {
  CHECK(refusal(interleaved(4, 4, 3), 11) ==
        "interleaved: 4 pipeline ranks with 3 stages each need at least 12 blocks, but the model "
        "has 11; it has enough for 3 ranks");
  CHECK(refusal(one_f_one_b(4, 4), 3) ==
        "1f1b: 4 pipeline ranks with 1 stage each need at least 4 blocks, but the model has 3; it "
        "has enough for 3 ranks");
}

}  // namespace assign_test
