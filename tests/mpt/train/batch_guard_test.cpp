#include <doctest/doctest.h>

#include <mpt/train/batch_guard.hpp>

namespace batch_guard_test {

using enum parallel::train::step_outcome;
using policy = mpt::bad_batch_policy;

mpt::train_config config_of(policy on_not_finite, policy on_spike) {
  mpt::train_config config;
  config.run.on_not_finite = on_not_finite;
  config.run.spike_check = {on_spike, 2, 4};
  return config;
}

/// Adds updates with losses 1, 3, 5 and norms 10, 14, 18, which make the limits 7 and 22.
void fill(mpt::batch_guard& guard) {
  for (int i = 0; i < 3; ++i)
    guard.record_update({.batch = i + 1, .loss = 1.0 + 2 * i, .gradient_norm = 10.0 + 4 * i});
}

TEST_CASE("batch guard: spikes and values that are not finite have separate policies") {
  for (auto const not_finite_goes : {policy::skip, policy::roll_back})
    for (auto const spike_goes : {policy::skip, policy::roll_back}) {
      auto const config = config_of(not_finite_goes, spike_goes);
      mpt::batch_guard guard(config.run);
      fill(guard);
      CHECK(guard.limits() == parallel::train::step_limits{7, 22});
      CHECK(guard.must_roll_back(above_limit, {.batch = 4, .loss = 7.5, .gradient_norm = 1}) ==
            (spike_goes == policy::roll_back));
      CHECK(guard.skip(4, 4) ==
            "batch 4: the loss 7.5 is a spike, above the mean 3 of the last 3 updates by more than "
            "2 standard deviations of 2; it is skipped");
      CHECK(guard.must_roll_back(not_finite, {.batch = 6, .loss = 1, .gradient_norm = 1}) ==
            (not_finite_goes == policy::roll_back));
      CHECK(guard.skip(5, 6) ==
            "batch 6: the loss or the gradient is not finite; the run goes back to "
            "batch 4; the batches from 5 are skipped");
      CHECK(guard.limits() == parallel::train::step_limits{7, 22});  // neither batch counts
    }
}

TEST_CASE("batch guard: a run that stops, or cannot roll back, says why") {
  auto const config = config_of(policy::stop, policy::stop);
  mpt::batch_guard guard(config.run);
  fill(guard);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(
          guard.must_roll_back(above_limit, {.batch = 4, .loss = 1, .gradient_norm = 22.5})),
      "batch 4: the gradient norm 22.5 is a spike, above the mean 14 of the last 3 updates by more "
      "than 2 standard deviations of 4; nothing was updated: lower the learning rate, resume from "
      "an earlier checkpoint, or set spike_check.on_spike to skip or roll_back",
      parallel::diverged);
  CHECK_THROWS_WITH_AS(static_cast<void>(guard.must_roll_back(not_finite, {.batch = 4})),
                       "batch 4: the loss or the gradient is not finite; nothing was updated: "
                       "lower the learning rate, resume from an earlier checkpoint, or set "
                       "on_not_finite to skip or roll_back",
                       parallel::diverged);
  CHECK_THROWS_WITH_AS(static_cast<void>(guard.rollback_checkpoint("", 4)),
                       "batch 4: the loss or the gradient is not finite, and there is no "
                       "checkpoint yet to roll back to; save earlier, or skip such batches",
                       parallel::diverged);
  CHECK(guard.rollback_checkpoint("run/ep0-ba2", 4).folder == "run/ep0-ba2");
}

TEST_CASE("batch guard: a checkpoint restores all; rolling back keeps the batches skipped since") {
  auto const config = config_of(policy::skip, policy::skip);
  mpt::batch_guard guard(config.run);
  fill(guard);
  static_cast<void>(guard.must_roll_back(above_limit, {.batch = 4, .loss = 8}));
  static_cast<void>(guard.skip(4, 4));
  mpt::run_state state;
  guard.save(state);
  CHECK(state.skipped.dump() == "[[4,4]]");
  mpt::batch_guard resumed(config.run);
  resumed.restore(state);
  CHECK(resumed.limits() == guard.limits());

  resumed.record_update({.batch = 5, .loss = 6, .gradient_norm = 20});
  CHECK(resumed.limits() != guard.limits());
  static_cast<void>(resumed.must_roll_back(not_finite, {.batch = 7}));
  static_cast<void>(resumed.skip(7, 7));
  resumed.roll_back(state);
  CHECK(resumed.limits() == guard.limits());
  resumed.save(state);
  CHECK(state.skipped.dump() == "[[4,4],[7,7]]");

  mpt::train_config no_guard;
  mpt::batch_guard unguarded(no_guard.run);
  unguarded.restore(state);
  CHECK_FALSE(unguarded.limits().has_limit());
  mpt::run_state saved;
  unguarded.save(saved);
  CHECK(saved.spikes.is_null());
}

}  // namespace batch_guard_test
