// A position that does not advance and a first loss that is not finite are refused.
#include <limits>

#include <doctest/doctest.h>

#include <parallel/train/checks/progress_check.hpp>

#include "parallel/support/files.hpp"

namespace progress_check_test {
namespace {

using parallel::train::progress_check;
using parallel::train::step_outcome;

/// The message of the refusal of steps at `first` and `second` with these outcomes and factors.
std::string refusal(parallel::position first, parallel::position second,
                    step_outcome outcome = step_outcome::updated, double first_factor = 1.0,
                    double second_factor = 1.0) {
  return test::message_of([&] {
    progress_check check;
    check.before_step(first, first_factor);
    check.after_step(outcome, 1.0, false);
    check.before_step(second, second_factor);
  });
}

TEST_CASE(
    "progress check: a second update at the position of the first, or before it, is refused") {
  CHECK(test::contains(refusal({.step = 3}, {.step = 3}),
                       "position.step is 3 as in the step before, which has updated the "
                       "parameters; give the number of finished steps"));
  CHECK(refusal({.step = 3}, {.step = 4}).empty());
  CHECK(test::contains(refusal({.step = 3}, {.step = 2}),
                       "position.step is 2 after 3, so that dropout draws the same numbers again"));
  CHECK(refusal({.seed = 1, .step = 3}, {.seed = 2, .step = 3}).empty());
}

TEST_CASE("progress check: a step that updated nothing may be repeated") {
  CHECK(refusal({}, {}, step_outcome::not_finite).empty());
  CHECK(refusal({}, {}, step_outcome::updated, 0.0).empty());
  CHECK(refusal({}, {}, step_outcome::updated, 1.0, 0.0).empty());
}

TEST_CASE("progress check: a first loss that is not finite is refused unless the caller guards") {
  double const infinite = std::numeric_limits<double>::infinity();
  progress_check guarded;
  guarded.before_step({}, 1.0);
  CHECK_NOTHROW(guarded.after_step(step_outcome::not_finite, infinite, true));
  progress_check check;
  check.before_step({}, 1.0);
  CHECK_THROWS_WITH_AS(check.after_step(step_outcome::updated, infinite, false),
                       doctest::Contains("the loss of the first step is inf: "), parallel::error);
  progress_check later;
  later.before_step({}, 1.0);
  later.after_step(step_outcome::updated, 1.0, false);
  later.before_step({.step = 1}, 1.0);
  CHECK_NOTHROW(later.after_step(step_outcome::updated, infinite, false));
}

}  // namespace
}  // namespace progress_check_test
