// Exact ring tests: every data-parallel layout equals one rank bit for bit, in loss, squared norm,
// every gradient and every parameter after k steps.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "parallel/support/files.hpp"
#include "support/ring_run.hpp"

namespace stepper_test {

using parallel::index;
using test::layout;
using test::outcome;
using test::run;
namespace zero = parallel::zero;

TEST_CASE("data parallel x accumulation x ZeRO equal one rank bit for bit") {
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

TEST_CASE("ranks without a sequence take part in every gathering and reduction") {
  // 13 ranks share 11 sequences
  for (auto const level : test::all_levels) {
    CAPTURE(static_cast<int>(level));
    CHECK(run({.ranks = 13, .level = level}) == run({.microbatch = test::global_batch}));
  }
}

TEST_CASE("replicas of shards equal one rank bit for bit, frozen parameters included") {
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

TEST_CASE("values that stay and gradients reduced once in a step change no bit") {
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
            layout how{.ranks = ranks,
                       .level = zero::level::parameters,
                       .microbatch = microbatch,
                       .frozen = names,
                       .replicas = replicas,
                       .pipeline = pipeline};
            for (int const form : {1, 2, 3}) {
              how.reshard = form == 2;
              how.reduce_every_microbatch = form == 1;
              CHECK(run(how) == expected);
            }
            how.level = zero::level::gradients;
            CHECK(run(how) == expected);
          }
  }
}

TEST_CASE("what a step that has begun forbids waits for it before it throws") {
  using rank = test::ring_rank<>;
  using call = std::pair<char const*, std::function<void(rank&)>>;
  for (auto const& [name, forbidden] :
       {call{"begin_step", [](rank& one) { one.begin(1); }},
        call{"initialise", [](rank& one) { one.stepper().initialise(1); }},
        call{"clear_states", [](rank& one) { one.stepper().clear_states(one.compute()); }},
        call{"gather_values", [](rank& one) { one.stepper().gather_values(one.compute()); }}})
    for (int const ranks : {1, 2}) {
      test::layout const how{.ranks = ranks, .level = test::zero::level::parameters};
      auto const said = test::message_of([&, wrong = forbidden] {
        parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
          std::atomic<bool> started = false, finished = false;
          rank one(parallel::any_communicator(std::move(comm)), how);
          one.prepare(0);
          one.begin(0);
          one.compute().enqueue([&] {
            started = true;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            finished = true;
          });
          while (ranks == 1 && !started) std::this_thread::yield();
          try {
            wrong(one);
          } catch (...) {
            CHECK(finished == started);  // it may not have begun when another rank fails
            throw;
          }
        });
      });
      CHECK(test::contains(
          said, parallel::concat("stepper::", name, ": a step has begun; call finish_step first")));
    }
}

}  // namespace stepper_test
