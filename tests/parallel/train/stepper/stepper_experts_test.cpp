// Exact ring tests of mixtures of experts: every layout equals one rank bit for bit.
#include <doctest/doctest.h>

#include <mutex>
#include <string>
#include <vector>

#include "support/ring/ring_run.hpp"

namespace stepper_experts_test {

using test::layout;
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

TEST_CASE("experts: ranks that divide experts, with tensor ranks and pipelines, equal one rank") {
  auto model = mixture(true, parallel::balance_set::sequence);
  model.experts = 4;
  test::ring_sizes const sizes{.length = 8, .batch = 8};
  outcome const expected = run({.microbatch = 8, .model = model, .sizes = sizes});
  int layouts = 0;
  for (auto const level : test::all_levels)
    for (int const tensor : {1, 2})
      for (int const pipeline : {1, 3})
        for (char const* const schedule : {"1f1b", "zb-h1"})
          for (int const experts : {2, 4})
            for (parallel::index const recompute : {0, 3}) {
              if ((tensor == 1 && pipeline == 1) ||
                  (pipeline == 1 && schedule == std::string("zb-h1")))
                continue;
              auto options = model;
              options.recompute = recompute;
              CAPTURE(static_cast<int>(level));
              CAPTURE(tensor);
              CAPTURE(pipeline);
              CAPTURE(schedule);
              CAPTURE(experts);
              CAPTURE(recompute);
              CHECK(run({.ranks = 4,
                         .level = level,
                         .microbatch = 1,
                         .model = options,
                         .pipeline = pipeline,
                         .schedule = {.schedule = schedule},
                         .tensor = tensor,
                         .experts = experts,
                         .divide_rows = tensor > 1,
                         .sizes = sizes}) == expected);
              ++layouts;
            }
  MESSAGE(layouts << " layouts equal one rank bit for bit");
}

TEST_CASE("experts: a step whose rows lack room at their experts is made again with more room") {
  auto model = mixture(false, parallel::balance_set::sequence);
  model.experts = 8;
  model.top_k = 3;
  test::ring_sizes const sizes{.length = 8, .batch = 8};
  outcome const expected = run({.microbatch = 8, .model = model, .sizes = sizes});
  for (double const buffer : {0.25, 1.0, 3.0, 7.0}) {
    CAPTURE(buffer);
    model.expert_buffer = buffer;
    layout const divided{.ranks = 8,
                         .level = test::zero::level::gradients,
                         .microbatch = 1,
                         .model = model,
                         .experts = 8,
                         .sizes = sizes};
    outcome found;
    int overflows = 0;
    std::mutex lock;
    parallel::threads::run(8, [&](parallel::threads::communicator& comm) {
      test::ring_rank rank(parallel::any_communicator(std::move(comm)), divided);
      for (int step = 0; step < test::steps; ++step) {
        auto result = rank.step(step);
        for (; result.outcome == parallel::train::step_outcome::overflowed;
             result = rank.step(step)) {
          if (rank.rank() == 0) ++overflows;
          rank.stepper().grow_buffers();
          auto const data = rank.data(step);
          rank.session().reserve(rank.stepper().plan_activations(data.batches()));
        }
        std::scoped_lock const guard(lock);
        found.add(static_cast<std::size_t>(step), result);
      }
      rank.stepper().gather_values(rank.compute());
      std::scoped_lock const guard(lock);
      test::collect(rank.stepper(), found);
    });
    CHECK(found == expected);
    CHECK((overflows > 0) == (buffer < 3.0));
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
