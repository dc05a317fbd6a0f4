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

inline std::optional<example> stitch(std::vector<turn> const& turns, char const* prompts = "none",
                                     char const* responses = "last", std::size_t max_seq_len = 100,
                                     std::optional<std::int32_t> end = 9) {
  return stitch_turns(turns, read_target_policy(prompts, responses), max_seq_len, end);
}

}  // namespace stitch_turns_test

TEST_CASE("stitched turns: the response is the target and ends with the end-of-text token") {
  using namespace stitch_turns_test;
  auto const example = stitch({{{1, 2}, {3, 4}}});
  REQUIRE(example);
  CHECK(example->ids == ids{1, 2, 3, 4, 9});
  CHECK(example->labels == ids{none, 3, 4, 9, none});
  CHECK(stitch({{{1, 2}, {3, 9}}})->ids == ids{1, 2, 3, 9});
  CHECK(stitch({{{1, 2}, {3, 4}}}, "none", "last", 100, std::nullopt)->ids == ids{1, 2, 3, 4});
}

TEST_CASE("stitched turns: the policy chooses the targets, and only the last turn ends the text") {
  using namespace stitch_turns_test;
  std::vector<turn> const turns = {{{1, 2}, {3}}, {{4, 5, 6}, {7, 8}}};
  CHECK(stitch(turns)->ids == ids{1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(stitch(turns)->labels == ids{none, none, none, none, none, 7, 8, 9, none});
  CHECK(stitch(turns, "none", "all")->labels == ids{none, 3, none, none, none, 7, 8, 9, none});
  CHECK(stitch(turns, "ALL", "Last")->labels == ids{2, none, 4, 5, 6, 7, 8, 9, none});
  CHECK(stitch(turns, "length>=3")->labels == ids{none, none, 4, 5, 6, 7, 8, 9, none});
}

TEST_CASE("stitched turns: ids beyond max_seq_len are cut, and no target means no example") {
  using namespace stitch_turns_test;
  std::vector<turn> const turns = {{{1, 2}, {3, 4}}};
  CHECK(stitch(turns, "none", "last", 4)->ids == ids{1, 2, 3, 4});
  CHECK(stitch(turns, "none", "last", 3)->labels == ids{none, 3, none});
  CHECK(!stitch(turns, "none", "last", 2));
  CHECK(stitch(turns, "all", "last", 2)->labels == ids{2, none});
  CHECK(!stitch({{{1, 2}, {}}}));
  CHECK(!stitch({{{}, {3}}}, "all"));
  CHECK(!stitch({{{1}, {2}}, {{3}, {}}}, "all", "all"));
  CHECK(!stitch({}));
}

TEST_CASE("target policy: an unknown value is an error that lists the choices") {
  using namespace stitch_turns_test;
  auto const error_of = [](char const* prompts, char const* responses) {
    return data_test::message_of([&] { (void)read_target_policy(prompts, responses); });
  };
  CHECK(error_of("some", "last") ==
        "target_prompts is \"some\"; expected none, all or length>=N (prompts of at least N "
        "tokens)");
  CHECK(error_of("length>=0", "last") ==
        "target_prompts is \"length>=0\"; after \"length>=\" a whole number above 0 is expected");
  CHECK(error_of("length>=-3", "last") ==
        "target_prompts is \"length>=-3\"; after \"length>=\" a whole number above 0 is expected");
  CHECK(error_of("none", "first") == "target_responses is \"first\"; expected last or all");
}
