// Exact ring tests of mixtures of experts: every layout equals one rank bit for bit.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/ring/ring_run.hpp"

namespace stepper_experts_test {

using test::outcome;
using test::run;

/// A model of three blocks with five experts of two each.
test::ring_options mixture(bool gated, parallel::balance_set set) {
  return {.gated = gated, .attention = {.heads = 2}, .experts = 5, .balance_set = set};
}

TEST_CASE("experts: data ranks x ZeRO x tensor x context equal one rank bit for bit") {
  for (bool const gated : {false, true}) {
    auto const model = mixture(gated, parallel::balance_set::sequence);
    test::ring_sizes const sizes{.length = 8};
    outcome const expected =
        run({.microbatch = test::global_batch, .model = model, .sizes = sizes});
    int layouts = 0;
    for (auto const level : test::all_levels)
      for (int const ranks : {1, 2, 3})
        for (int const tensor : {1, 2})
          for (int const context : {1, 2}) {
            if (ranks * tensor * context > 6) continue;
            CAPTURE(static_cast<int>(level));
            CAPTURE(ranks);
            CAPTURE(tensor);
            CAPTURE(context);
            CHECK(run({.ranks = ranks,
                       .level = level,
                       .microbatch = 2,
                       .model = model,
                       .context = context,
                       .tensor = tensor,
                       .divide_rows = tensor > 1,
                       .sizes = sizes}) == expected);
            ++layouts;
          }
    MESSAGE(layouts << " layouts equal one rank bit for bit");
  }
}

TEST_CASE("experts: pipelines x ZeRO x accumulation x recomputation equal one rank bit for bit") {
  auto model = mixture(true, parallel::balance_set::sequence);
  model.blocks = 6;
  outcome const expected = run({.microbatch = test::global_batch, .model = model});
  struct pipeline {
    int ranks;
    char const* schedule;
    int stages_per_rank = 1;
  };
  int layouts = 0;
  for (auto const& p : {pipeline{2, "gpipe"}, pipeline{3, "1f1b"}, pipeline{2, "interleaved", 3},
                        pipeline{3, "zb-h1"}, pipeline{2, "zb-v"}, pipeline{2, "dual-pipe-v"}})
    for (auto const level : test::all_levels)
      for (parallel::index const recompute : {0, 6}) {
        CAPTURE(p.schedule);
        CAPTURE(static_cast<int>(level));
        CAPTURE(recompute);
        auto options = model;
        options.recompute = recompute;
        CHECK(run({.ranks = 2,
                   .level = level,
                   .microbatch = 2,
                   .model = options,
                   .pipeline = p.ranks,
                   .schedule = {.schedule = p.schedule, .stages_per_rank = p.stages_per_rank}}) ==
              expected);
        ++layouts;
      }
  MESSAGE(layouts << " layouts equal one rank bit for bit");
}

TEST_CASE(
    "experts: a balancing loss over microbatches is that of the same microbatches on any ranks") {
  auto const model = mixture(false, parallel::balance_set::microbatch);
  test::ring_sizes const sizes{.length = 8, .batch = 6};
  outcome const expected = run({.microbatch = 1, .model = model, .sizes = sizes});
  for (int const ranks : {2, 3, 6})
    for (int const context : {1, 2}) {
      CAPTURE(ranks);
      CAPTURE(context);
      CHECK(run({.ranks = ranks,
                 .level = test::zero::level::gradients,
                 .microbatch = 1,
                 .model = model,
                 .context = context,
                 .sizes = sizes}) == expected);
    }
}

TEST_CASE("experts: ranks that divide experts equal one rank bit for bit") {
  auto model = mixture(true, parallel::balance_set::sequence);
  model.experts = 8;
  test::ring_sizes const sizes{.length = 8, .batch = 8};
  outcome const expected = run({.microbatch = 8, .model = model, .sizes = sizes});
  int layouts = 0;
  for (auto const level : test::all_levels)
    for (int const ranks : {1, 2, 4})
      for (int const replicas : {1, 2})
        for (int const context : {1, 2})
          for (int const experts : {2, 4, 8}) {
            if (ranks * context * replicas > 8 || (ranks * context * replicas) % experts != 0)
              continue;
            if (level == test::zero::level::none && replicas > 1) continue;
            CAPTURE(static_cast<int>(level));
            CAPTURE(ranks);
            CAPTURE(replicas);
            CAPTURE(context);
            CAPTURE(experts);
            CHECK(run({.ranks = ranks,
                       .level = level,
                       .microbatch = 1,
                       .bucket_bytes = 4000,
                       .model = model,
                       .replicas = replicas,
                       .context = context,
                       .experts = experts,
                       .sizes = sizes}) == expected);
            ++layouts;
          }
  MESSAGE(layouts << " layouts equal one rank bit for bit");
}

}  // namespace stepper_experts_test
