// Exact ring tests of the pipeline axis: every schedule, with every ZeRO stage, replicas and uneven
// microbatches, equals one rank bit for bit.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/ring/ring_run.hpp"

namespace stages_test {

using test::outcome;
using test::run;

struct pipeline {
  int ranks;
  std::string schedule;
  int stages_per_rank = 1;
};

std::vector<pipeline> const pipelines = {{2, "gpipe"},          {2, "1f1b"},  {3, "1f1b"},
                                         {2, "zb-h1"},          {3, "zb-h1"}, {2, "interleaved", 2},
                                         {2, "interleaved", 3}, {2, "zb-v"},  {3, "zb-v"},
                                         {2, "dual-pipe-v"},    {6, "gpipe"}};

TEST_CASE("stages: every pipeline schedule x ZeRO x data ranks equals one rank bit for bit") {
  for (bool const tied : {true, false}) {
    test::ring_options const model{.tied = tied, .blocks = 6};
    outcome const expected = run({.microbatch = test::global_batch, .model = model});
    int layouts = 0;
    for (auto const& p : pipelines)
      for (auto const level : test::all_levels)
        for (int const ranks : {1, 2, 3}) {
          if (ranks > 1 && p.ranks > 3) continue;
          CAPTURE(p.ranks);
          CAPTURE(p.schedule);
          CAPTURE(p.stages_per_rank);
          CAPTURE(static_cast<int>(level));
          CAPTURE(ranks);
          CAPTURE(tied);
          CHECK(run({.ranks = ranks,
                     .level = level,
                     .microbatch = 2,
                     .bucket_bytes = 2000,
                     .model = model,
                     .pipeline = p.ranks,
                     .schedule = {.schedule = p.schedule, .stages_per_rank = p.stages_per_rank}}) ==
                expected);
          ++layouts;
        }
    MESSAGE(layouts << " layouts equal one rank bit for bit");
  }
}

TEST_CASE("stages: a stage whose parameters are all frozen takes part in every step") {
  test::ring_options const model{.tied = false, .blocks = 6};
  std::vector<std::string> const last_half{"block.3", "block.4", "block.5", "norm", "head"};
  outcome const expected =
      run({.microbatch = test::global_batch, .frozen = last_half, .model = model});
  for (auto const level : test::all_levels) {
    CAPTURE(static_cast<int>(level));
    CHECK(run({.ranks = 2,
               .level = level,
               .microbatch = 2,
               .frozen = last_half,
               .model = model,
               .pipeline = 2,
               .schedule = {.schedule = "1f1b"}}) == expected);
  }
}

}  // namespace stages_test
