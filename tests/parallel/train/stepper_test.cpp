// Exact ring tests: every data-parallel layout equals one rank bit for bit, in loss, squared norm,
// every gradient and every parameter after k steps.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/support/files.hpp"
#include "support/ring/ring_run.hpp"

namespace stepper_test {

using parallel::index;
using test::layout;
using test::outcome;
using test::run;
namespace zero = parallel::zero;

TEST_CASE("stepper: data parallel x accumulation x ZeRO equals one rank bit for bit") {
  outcome const expected = run({.microbatch = test::global_batch});
  REQUIRE(expected.losses.size() == test::steps);
  REQUIRE(expected.losses[0] != expected.losses[1]);
  REQUIRE(expected.parameters.size() == 2 + 3 * 11);
  REQUIRE(expected.ranks_agree);
  int layouts = 0;
  for (int const ranks : {1, 2, 3, 4, 5, 7, 8})
    for (auto const level : test::all_levels)
      for (index const microbatch : {1, 2, 3})
        for (std::size_t const bucket : {std::size_t{1}, std::size_t{2000}, std::size_t{1} << 30}) {
          CAPTURE(ranks);
          CAPTURE(static_cast<int>(level));
          CAPTURE(microbatch);
          CAPTURE(bucket);
          CHECK(run({ranks, level, microbatch, bucket}) == expected);
          ++layouts;
        }
  MESSAGE(layouts << " layouts equal one rank bit for bit");
}

TEST_CASE("stepper: gated linear units and an untied head equal one rank bit for bit") {
  test::ring_options const model{.tied = false, .gated = true};
  outcome const expected = run({.microbatch = test::global_batch, .model = model});
  REQUIRE(expected.parameters.size() == 2 + 3 * 13 + 1);
  CHECK(expected.losses != run({.microbatch = test::global_batch}).losses);
  for (int const ranks : {2, 3, 5})
    for (auto const level : test::all_levels)
      for (std::size_t const bucket : {std::size_t{1}, std::size_t{2000}}) {
        CAPTURE(ranks);
        CAPTURE(static_cast<int>(level));
        CAPTURE(bucket);
        CHECK(run({.ranks = ranks,
                   .level = level,
                   .microbatch = 2,
                   .bucket_bytes = bucket,
                   .model = model}) == expected);
      }
}

/// The gradients of models whose blocks begin alike: those of all blocks are added.
std::map<std::string, std::vector<test::ring>> with_sum_of_blocks(outcome const& result) {
  std::map<std::string, std::vector<test::ring>> out;
  for (auto const& [name, gradient] : result.gradients) {
    auto sum_name = name;
    if (name.starts_with("block.")) sum_name[6] = '0';
    auto& sum = out[sum_name];
    sum.resize(gradient.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  }
  return out;
}

TEST_CASE("stepper: blocks with the same parameters have the sum of separate blocks' gradients") {
  test::ring_options model{.equal_blocks = true};
  outcome const separate = run({.microbatch = 3, .num_steps = 1, .model = model});
  for (auto const kind : {test::block_parameters::shared_layer, test::block_parameters::tied}) {
    CAPTURE(static_cast<int>(kind));
    model.block_kind = kind;
    for (auto const level : test::all_levels)
      for (int const pipeline : {1, 2}) {
        CAPTURE(static_cast<int>(level));
        CAPTURE(pipeline);
        layout config{.ranks = 2, .level = level, .microbatch = 3, .num_steps = 1, .model = model};
        config.pipeline = pipeline;
        outcome const computed = run(config);
        CHECK(computed.ranks_agree);
        CHECK(computed.losses == separate.losses);
        CHECK(computed.gradients == with_sum_of_blocks(separate));
      }
  }
}

TEST_CASE("stepper: ranks without a sequence take part in every all-gather and reduction") {
  // 13 ranks share 11 sequences.
  for (auto const level : test::all_levels) {
    CAPTURE(static_cast<int>(level));
    CHECK(run({.ranks = 13, .level = level}) == run({.microbatch = test::global_batch}));
  }
}

TEST_CASE("stepper: replicas of shards equal one rank bit for bit, frozen parameters included") {
  std::vector<std::string> const frozen{"mix", "tokens"};
  for (auto const& names : {std::vector<std::string>{}, frozen}) {
    outcome const expected = run({.microbatch = test::global_batch, .frozen = names});
    for (int const replicas : {2, 3})
      for (int const ranks : {1, 2, 3})
        for (auto const level : test::all_levels) {
          CAPTURE(replicas);
          CAPTURE(ranks);
          CAPTURE(static_cast<int>(level));
          CHECK(run({.ranks = ranks,
                     .level = level,
                     .microbatch = 2,
                     .bucket_bytes = 2000,
                     .frozen = names,
                     .replicas = replicas}) == expected);
        }
  }
}

TEST_CASE("stepper: values that stay unsharded and gradients reduced once a step change no bit") {
  std::vector<std::string> const frozen{"mix", "tokens"};
  for (auto const& names : {std::vector<std::string>{}, frozen}) {
    outcome const expected = run({.microbatch = test::global_batch, .frozen = names});
    for (int const pipeline : {1, 2})
      for (int const replicas : {1, 2})
        for (int const ranks : {2, 3, 13})
          for (index const microbatch : {1, 3}) {
            if (ranks * pipeline * replicas > 13) continue;
            CAPTURE(pipeline);
            CAPTURE(replicas);
            CAPTURE(ranks);
            CAPTURE(microbatch);
            layout run_layout{.ranks = ranks,
                              .level = zero::level::parameters,
                              .microbatch = microbatch,
                              .frozen = names,
                              .replicas = replicas,
                              .pipeline = pipeline};
            for (int const form : {1, 2, 3}) {
              run_layout.reshard = form == 2;
              run_layout.reduce_every_microbatch = form == 1;
              CHECK(run(run_layout) == expected);
            }
            run_layout.level = zero::level::gradients;
            CHECK(run(run_layout) == expected);
          }
  }
}

TEST_CASE("stepper: a call that a begun step forbids waits for the step before it throws") {
  using rank = test::ring_rank<>;
  using call = std::pair<char const*, std::function<void(rank&)>>;
  for (auto const& [name, forbidden] :
       {call{"begin_step", [](rank& stepping_rank) { stepping_rank.begin(1); }},
        call{"initialise", [](rank& stepping_rank) { stepping_rank.stepper().initialise(1); }},
        call{"clear_states",
             [](rank& stepping_rank) {
               stepping_rank.stepper().clear_states(stepping_rank.compute());
             }},
        call{"gather_values", [](rank& stepping_rank) {
               stepping_rank.stepper().gather_values(stepping_rank.compute());
             }}})
    for (int const ranks : {1, 2}) {
      test::layout const run_layout{.ranks = ranks, .level = test::zero::level::parameters};
      auto const message = test::message_of([&, forbidden_call = forbidden] {
        parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
          std::atomic<bool> started = false, finished = false;
          rank stepping_rank(parallel::any_communicator(std::move(comm)), run_layout);
          stepping_rank.prepare(0);
          stepping_rank.begin(0);
          stepping_rank.compute().enqueue([&] {
            started = true;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            finished = true;
          });
          while (ranks == 1 && !started) std::this_thread::yield();
          try {
            forbidden_call(stepping_rank);
          } catch (...) {
            CHECK(finished == started);  // the task may not have begun when another rank fails
            throw;
          }
        });
      });
      CHECK(test::contains(
          message,
          parallel::concat("stepper::", name, ": a step has begun; call finish_step first")));
    }
}

}  // namespace stepper_test
