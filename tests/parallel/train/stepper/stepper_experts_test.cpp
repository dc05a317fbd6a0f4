// Exact ring tests of mixtures of experts: every layout equals one rank bit for bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/recorded.hpp>
#include <parallel/train/plan.hpp>

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
    auto const model = mixture(
        gated, gated ? parallel::balance_set::global_batch : parallel::balance_set::sequence);
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
  auto model = mixture(true, parallel::balance_set::global_batch);
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
  auto model = mixture(true, parallel::balance_set::global_batch);
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

/// The bytes that one rank sends in a step of the layout because experts are divided, by axis:
/// those of rows, and those of the experts' gradients and values in float64-sized elements.
std::map<std::string, std::uint64_t> bytes_of_experts(layout const& config, auto const& units) {
  using parallel::index;
  std::map<std::string, std::uint64_t> out;
  auto const& m = config.model;
  index const p = config.experts;
  index const rows = config.microbatch * config.sizes.length / config.context;
  index const largest = rows * std::min(m.top_k, m.experts / p);
  index const block =
      m.expert_buffer == 0
          ? largest
          : std::min(largest, static_cast<index>(std::ceil(m.expert_buffer * double(rows) *
                                                           double(m.top_k) / double(p))));
  index const microbatches =
      config.sizes.batch / (config.ranks * config.replicas) / config.microbatch;
  index const passes = 4 * m.blocks + 2 * m.recompute;  // exchanges of rows of one microbatch
  index const counts = m.blocks + m.recompute;
  out["expert"] = static_cast<std::uint64_t>(
      microbatches * (p - 1) *
      (passes * block * config.sizes.width * 8 + counts * (m.experts / p) * 4));
  for (auto const& entry : units) {
    auto const& layout_of_unit = entry.memory.layout();
    if (layout_of_unit.expert_ranks() == 1) continue;
    auto const& position = entry.memory.position();
    auto const whole = static_cast<std::uint64_t>(layout_of_unit.size()) * 8;
    auto const n = static_cast<std::uint64_t>(position.shards);
    auto const r = static_cast<std::uint64_t>(position.replicas);
    using enum test::zero::level;
    auto const m_count = static_cast<std::uint64_t>(microbatches);
    std::uint64_t const reductions = config.level >= gradients ? m_count : 1;
    std::uint64_t const gathers = config.level == parameters ? 2 * m_count : 1;
    out["shard of experts"] += whole / n * (n - 1) * (reductions + gathers);
    out["replicate of experts"] += 2 * (whole / n) * (r - 1) / r;
  }
  std::erase_if(out, [](auto const& entry) { return entry.second == 0; });
  return out;
}

TEST_CASE(
    "experts: bytes sent because experts are divided follow the formulas, and memory the plan") {
  auto model = mixture(true, parallel::balance_set::sequence);
  model.experts = 8;
  test::ring_sizes const sizes{.length = 8, .batch = 8};
  for (auto const level : test::all_levels)
    for (int const experts : {2, 4})
      for (int const context : {1, 2})
        for (double const buffer : {0.0, 1.5})
          for (parallel::index const recompute : {0, 2}) {
            if (context == 2 && experts == 4) continue;
            CAPTURE(static_cast<int>(level));
            CAPTURE(experts);
            CAPTURE(context);
            CAPTURE(buffer);
            model.expert_buffer = buffer;
            model.recompute = recompute;
            layout const config{.ranks = 4,
                                .level = level,
                                .microbatch = 1,
                                .model = model,
                                .context = context,
                                .experts = experts,
                                .sizes = sizes};
            std::mutex lock;
            parallel::threads::run(
                config.shape().ranks(), [&](parallel::threads::communicator& comm) {
                  auto const recorder = std::make_shared<parallel::flight_recorder>();
                  test::ring_rank rank(
                      parallel::any_communicator(parallel::recorded(std::move(comm), recorder)),
                      config);
                  auto const units = rank.device().bytes();
                  static_cast<void>(rank.step(0));
                  auto const data = rank.data(0);
                  auto options = model;
                  options.expert_ranks =
                      decltype(options.expert_ranks)::planned(rank.rank() % experts, experts);
                  options.attention.ranks = decltype(options.attention.ranks)::planned(
                      config.shape().coordinate<parallel::axis::context>(rank.rank()), context);
                  test::ring_model planned(model.blocks, sizes.width, sizes.vocabulary, options);
                  auto const plan = parallel::train::plan_units(
                      planned, test::groups_of(config),
                      parallel::train::place_in(config.shape(), level), {.level = level});
                  std::map<std::string, std::uint64_t> counted;
                  for (auto const& [traffic, total] : recorder->totals())
                    if (traffic.first.find("expert") != std::string::npos && total.sent > 0)
                      counted[traffic.first] += total.sent;
                  std::scoped_lock const guard(lock);
                  CHECK(counted == bytes_of_experts(config, rank.stepper().units()));
                  CHECK(units == plan.total());
                  CHECK(rank.memory().peak() == rank.stepper().plan_activations(data.batches()));
                });
          }
}

}  // namespace stepper_experts_test
