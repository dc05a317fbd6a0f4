// The plans of a step as text and as a picture.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include <parallel/train/step/show_step.hpp>

#include "support/planned_steps.hpp"

namespace show_step_test {
namespace {

namespace train = parallel::train;

TEST_CASE("show_step: the text of a plan lists actions with their streams and dependencies") {
  test::planned_step const step{.ranks = 1, .microbatches = 1, .blocks = 1};
  CHECK(to_string(step.plans()[0]) == R"(pipeline rank 0 of 1, 1 microbatches: 38 actions
0     compute     prepare tokens
1     compute     prepare block.0
2     compute     prepare norm
3     compute     begin
4     gathers     unshard tokens for part -1 into 0  after 3
5     compute     forward part -1, microbatch 0  after 4
6     compute     reshard part -1 in 0
7     gathers     unshard block.0 for part 0 into 1
8     compute     forward part 0, microbatch 0  after 7
9     compute     reshard part 0 in 1
10    gathers     unshard tokens (use 1) for part 1 into 2
11    gathers     unshard norm for part 1 into 2
12    compute     begin_grads part 1, microbatch 0
13    compute     forward_backward part 1, microbatch 0  after 11
14    compute     reshard part 1 in 2
15    reductions  reduce_scatter tokens (use 1), microbatch 0 from 2  after 14
16    reductions  reduce_scatter norm, microbatch 0 from 2
17    gathers     unshard block.0 for part 0 into 1  after 9
18    compute     begin_grads part 0, microbatch 0
19    compute     backward part 0, microbatch 0  after 17
20    compute     reshard part 0 in 1
21    reductions  reduce_scatter block.0, microbatch 0 from 1  after 20
22    compute     begin_grads part -1, microbatch 0
23    compute     backward_weight part -1, microbatch 0
24    reductions  reduce_scatter tokens, microbatch 0 from 0  after 23
25    reductions  reduce norm, block.0, tokens
26    compute     join_uses tokens  after 25
27    compute     join_uses block.0
28    compute     join_uses norm
29    compute     measure tokens
30    compute     measure block.0
31    compute     measure norm
32    reductions  reduce_scalars  after 31
33    compute     clip  after 32
34    compute     update tokens
35    compute     update block.0
36    compute     update norm
37    compute     end
)");
}

TEST_CASE("show_step: a picture has a row for each used stream and a box for each timed action") {
  test::planned_step const step{};
  auto const plans = step.plans();
  auto const picture = train::svg_of(plans);
  auto const count = [&](std::string const& text) {
    std::size_t number = 0;
    for (auto offset = picture.find(text); offset != std::string::npos;
         offset = picture.find(text, offset + 1))
      ++number;
    return number;
  };
  train::step_costs const cost;
  std::size_t boxes = 0;
  for (auto const& plan : plans)
    boxes += static_cast<std::size_t>(
        std::ranges::count_if(plan.actions, [&](auto const& a) { return cost.duration(a) > 0; }));
  CHECK(count("<title>") == boxes);
  CHECK(count("compute</text>") == 2);
  CHECK(count("gathers</text>") == 2);
  CHECK(count("from 1</text>") == 1);
  CHECK(picture.find("unshard block.0 for part 0") != std::string::npos);
  CHECK(picture.substr(0, 4) == "<svg");
}

}  // namespace
}  // namespace show_step_test
