// The schedules at times whose factors are known; tests/mpt/config/run/scheduler_test.cpp compares
// them with Composer's.
#include <doctest/doctest.h>

#include <parallel/train/learning_rate.hpp>

namespace learning_rate_test {

using parallel::train::decay;
using schedule = parallel::train::learning_rate_schedule;

TEST_CASE("learning rate: the factor rises linearly and then falls as the shape says") {
  schedule const cosine{.warmup = 4, .end = 12, .to = 0.1};
  CHECK(cosine.at(0) == 0);
  CHECK(cosine.at(1) == 0.25);
  CHECK(cosine.at(4) == 1);
  CHECK(cosine.at(8) == doctest::Approx(0.55));
  CHECK(cosine.at(12) == doctest::Approx(0.1));
  CHECK(cosine.at(50) == cosine.at(12));

  schedule const linear{.shape = decay::linear, .end = 10, .from = 0.5, .to = 0.1};
  CHECK(linear.at(0) == 0.5);
  CHECK(linear.at(5) == doctest::Approx(0.3));
  CHECK(linear.at(10) == doctest::Approx(0.1));

  schedule const constant{.shape = decay::constant, .warmup = 2, .from = 0.5};
  CHECK(constant.at(1) == 0.25);
  CHECK(constant.at(99) == 0.5);

  schedule const root{
      .shape = decay::inverse_root, .warmup = 10, .end = 100, .scale = 10, .cooldown = 20};
  CHECK(root.at(10) == 1);
  CHECK(root.at(40) == doctest::Approx(0.5));
  CHECK(root.at(90) == doctest::Approx(root.at(80) / 2));
  CHECK(root.at(100) == 0);
}

TEST_CASE(
    "learning rate: a shape that needs an end is refused without one; an inverse root does not") {
  for (auto const shape : {decay::linear, decay::cosine, decay::inverse_root}) {
    schedule const endless{.shape = shape, .warmup = 4, .cooldown = 2};
    for (double const time : {0.0, 1.0, 4.0, 10.0})
      CHECK_THROWS_WITH_AS(static_cast<void>(endless.at(time)),
                           doctest::Contains("falls until `end`, which is 0; set it to the length"),
                           parallel::error);
  }
  schedule const root{.shape = decay::inverse_root, .warmup = 10, .scale = 10};
  CHECK(root.at(5) == 0.5);
  CHECK(root.at(10) == 1);
  CHECK(root.at(40) == doctest::Approx(0.5));
  CHECK(root.at(1000) == doctest::Approx(0.1));
  schedule const ended{.shape = decay::inverse_root, .warmup = 10, .end = 40, .scale = 10};
  CHECK(ended.at(40) == doctest::Approx(0.5));
}

}  // namespace learning_rate_test
