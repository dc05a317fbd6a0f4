// Steps of a device with one queue for all streams of a rank: most plans would deadlock there in
// their original order. In the order in which a run begins the actions none does, and they stay
// valid.
#include <doctest/doctest.h>

#include <string>

#include <parallel/train/step/one_queue.hpp>

#include "support/planned_steps.hpp"

namespace one_queue_test {
namespace {

namespace train = parallel::train;
using test::planned_step;

TEST_CASE("one queue: plans in the order of a run end in one queue, and on separate streams") {
  int deadlocked = 0, count = 0;
  for (std::string const schedule :
       {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dual-pipe-v"})
    for (int const ranks : {1, 2, 3, 4})
      for (int zero = 0; zero <= 3; ++zero)
        for (int choice = 0; choice < 6; ++choice) {
          planned_step step{.schedule = schedule,
                            .ranks = ranks,
                            .microbatches = 12,
                            .stages_per_rank = 2,
                            .zero = zero,
                            .data = zero == 0 ? 1 : 2,
                            .reduce_every_microbatch = choice % 2 == 0};
          step.choices.gathers = static_cast<train::gather_time>(choice % 3);
          step.choices.overlap_weights = choice % 2 == 1;
          auto plans = step.plans();
          if (!train::verify_in_one_queue(plans).good()) ++deadlocked;
          auto const original_plans = plans;
          train::order_for_one_queue(plans);
          CAPTURE(schedule);
          CAPTURE(ranks);
          CAPTURE(zero);
          CAPTURE(choice);
          CHECK(train::verify(plans).good());
          CHECK(train::verify_in_one_queue(plans).good());
          for (std::size_t r = 0; r < plans.size(); ++r)
            CHECK(plans[r].actions.size() == original_plans[r].actions.size());
          ++count;
        }
  CHECK(count == 6 * 4 * 4 * 6);
  CHECK(deadlocked > count / 2);
}

TEST_CASE("one queue: a plan that would deadlock is refused with the action that waits") {
  auto const plans = planned_step{.ranks = 2}.plans();
  CHECK(train::verify_in_one_queue(plans).problem == train::step_flaw::deadlock);
  train::require_runs(plans);
  CHECK_THROWS_AS(train::require_runs(plans, true), parallel::error);
}

}  // namespace
}  // namespace one_queue_test
