#include <doctest/doctest.h>

#include <cstdint>
#include <mpt/data/scratch.hpp>
#include <mpt/finetune/stitch_turns.hpp>
#include <optional>
#include <vector>

namespace stitch_turns_test {

using ids = std::vector<std::int32_t>;
using mpt::finetune::example;
using mpt::finetune::read_target_policy;
using mpt::finetune::stitch_turns;
using mpt::finetune::turn;

inline constexpr std::int32_t none = mpt::finetune::no_label;

inline std::optional<example> stitched(std::vector<turn> const& turns, char const* prompts = "none",
                                       char const* responses = "last", std::size_t most = 100,
                                       std::optional<std::int32_t> end = 9) {
  return stitch_turns(turns, read_target_policy(prompts, responses), most, end);
}

}  // namespace stitch_turns_test

TEST_CASE(
    "a response is trained on from the last id of the prompt, and ends with the end of text") {
  using namespace stitch_turns_test;
  auto const one = stitched({{{1, 2}, {3, 4}}});
  REQUIRE(one);
  CHECK(one->ids == ids{1, 2, 3, 4, 9});
  CHECK(one->labels == ids{none, 3, 4, 9, none});
  CHECK(stitched({{{1, 2}, {3, 9}}})->ids == ids{1, 2, 3, 9});
  CHECK(stitched({{{1, 2}, {3, 4}}}, "none", "last", 100, std::nullopt)->ids == ids{1, 2, 3, 4});
}

TEST_CASE("which parts are trained on follows the policy; the end of text is the last turn's") {
  using namespace stitch_turns_test;
  std::vector<turn> const two = {{{1, 2}, {3}}, {{4, 5, 6}, {7, 8}}};
  CHECK(stitched(two)->ids == ids{1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(stitched(two)->labels == ids{none, none, none, none, none, 7, 8, 9, none});
  CHECK(stitched(two, "none", "all")->labels == ids{none, 3, none, none, none, 7, 8, 9, none});
  CHECK(stitched(two, "ALL", "Last")->labels == ids{2, none, 4, 5, 6, 7, 8, 9, none});
  CHECK(stitched(two, "length>=3")->labels == ids{none, none, 4, 5, 6, 7, 8, 9, none});
}

TEST_CASE("the end is cut off, and what leaves nothing to train on is left out") {
  using namespace stitch_turns_test;
  std::vector<turn> const one = {{{1, 2}, {3, 4}}};
  CHECK(stitched(one, "none", "last", 4)->ids == ids{1, 2, 3, 4});
  CHECK(stitched(one, "none", "last", 3)->labels == ids{none, 3, none});
  CHECK(!stitched(one, "none", "last", 2));
  CHECK(stitched(one, "all", "last", 2)->labels == ids{2, none});
  CHECK(!stitched({{{1, 2}, {}}}));
  CHECK(!stitched({{{}, {3}}}, "all"));
  CHECK(!stitched({{{1}, {2}}, {{3}, {}}}, "all", "all"));
  CHECK(!stitched({}));
}

TEST_CASE("a policy that is none is an error that names the choices") {
  using namespace stitch_turns_test;
  auto const said = [](char const* prompts, char const* responses) {
    return data_test::message_of([&] { (void)read_target_policy(prompts, responses); });
  };
  CHECK(said("some", "last") ==
        "target_prompts is \"some\"; expected none, all or length>=N (prompts of at least N "
        "tokens)");
  CHECK(said("length>=0", "last") ==
        "target_prompts is \"length>=0\"; after \"length>=\" a whole number above 0 is expected");
  CHECK(said("length>=-3", "last") ==
        "target_prompts is \"length>=-3\"; after \"length>=\" a whole number above 0 is expected");
  CHECK(said("none", "first") == "target_responses is \"first\"; expected last or all");
}
