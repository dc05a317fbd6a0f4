// The passes over parts that make up the computations of a stage.
#include <doctest/doctest.h>

#include <vector>

#include <parallel/train/parts.hpp>

namespace parts_test {
namespace {

using namespace parallel::train;
using enum pass_kind;
using parallel::pass;
using parallel::pipeline::action_kind;
using list = std::vector<part_pass>;

static_assert(stage_range{0, 2, true, false}.front() == embed);
static_assert(stage_range{2, 4, false, true}.back() == 4);
static_assert(!stage_range{2, 4, false, false}.holds(4));

TEST_CASE(
    "parts: a forward pass runs every part; in training the exit runs forward and backward "
    "together") {
  stage_range const stage{0, 2, true, true};
  CHECK(passes_of(stage, action_kind::forward, pass::training, false) ==
        list{{forward, embed}, {forward, 0}, {forward, 1}, {forward_backward, 2}});
  CHECK(passes_of(stage, action_kind::forward, pass::inference, false).back() ==
        part_pass{forward, 2});
  CHECK(passes_of({2, 3, false, false}, action_kind::forward, pass::training, true) ==
        list{{forward, 2}});
}

TEST_CASE("parts: a backward pass runs in one or in halves, and the entry has no input gradient") {
  stage_range const first{0, 2, true, false};
  CHECK(passes_of(first, action_kind::backward, pass::training, false) ==
        list{{backward, 1}, {backward, 0}, {backward_weight, embed}});
  CHECK(passes_of(first, action_kind::backward_input, pass::training, true) ==
        list{{backward_input, 1}, {backward_input, 0}});
  CHECK(passes_of(first, action_kind::backward_weight, pass::training, true) ==
        list{{backward_weight, 1}, {backward_weight, 0}, {backward_weight, embed}});
}

TEST_CASE("parts: overlapped weight gradients are joined after the next input gradient") {
  CHECK(passes_of({0, 2, true, false}, action_kind::backward, pass::training, true) ==
        list{{backward_input, 1, true},
             {backward_weight, 1, true},
             {backward_input, 0, true},
             {join, 1, true},
             {backward_weight, 0, true},
             {join, 0, true},
             {backward_weight, embed}});
}

}  // namespace
}  // namespace parts_test
