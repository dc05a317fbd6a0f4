// The settings that optimizers expose.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <parallel/optim/any_optimizer.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/optim/decoupled_lion.hpp>
#include <parallel/optim/muon.hpp>
#include <parallel/optim/settings.hpp>

#include "parallel/support/files.hpp"

namespace settings_test {

using parallel::settings_of;
using lines = std::vector<std::string>;

struct with_a_rate {
  double learning_rate = 0.5;
  int steps = 3;
};
struct with_a_schedule {
  std::function<double(int)> learning_rate;
};
struct silent {
  int steps = 3;
};

TEST_CASE(
    "optimizer settings: they are listed by name, or only the learning rate where that is a "
    "number") {
  CHECK(settings_of(parallel::decoupled_lion{.learning_rate = 0.5}) ==
        lines{"learning_rate 0.5", "beta1 0.9", "beta2 0.99", "weight_decay 0"});
  CHECK(settings_of(parallel::any_optimizer<parallel::decoupled_adamw, parallel::decoupled_lion>(
            parallel::decoupled_lion{})) ==
        lines{"choice 1", "learning_rate 1e-04", "beta1 0.9", "beta2 0.99", "weight_decay 0"});
  CHECK(settings_of(with_a_rate{}) == lines{"learning_rate 0.5"});
  CHECK(settings_of(with_a_schedule{}).empty());
  CHECK(settings_of(silent{}).empty());
}

TEST_CASE("optimizer settings: numbers with which nothing can be trained are refused by name") {
  double const none = std::numeric_limits<double>::quiet_NaN();
  auto const refusal = [](auto const& optimizer) {
    return test::message_of([&] { parallel::require_settings(optimizer); });
  };
  using parallel::decoupled_adamw;
  CHECK(refusal(decoupled_adamw{}).empty());
  CHECK(refusal(parallel::decoupled_lion{.learning_rate = 0}).empty());
  CHECK(refusal(parallel::muon{}).empty());
  CHECK(refusal(silent{}).empty());
  struct {
    decoupled_adamw optimizer;
    char const* words;
  } const cases[] = {
      {{.learning_rate = none}, "the optimizer's learning_rate is nan; it must be a finite number"},
      {{.learning_rate = -0.1}, "learning_rate is -0.1; it must be a finite number, 0 or more"},
      {{.learning_rate = std::numeric_limits<double>::infinity()}, "learning_rate is inf; it"},
      {{.beta1 = 1.5}, "beta1 is 1.5; it must be a finite number from 0 to below 1"},
      {{.beta2 = none}, "beta2 is nan; it must be"},
      {{.eps = -1}, "eps is -1; it must be"},
      {{.weight_decay = -1}, "weight_decay is -1; it must be"}};
  for (auto const& [optimizer, words] : cases) CHECK(test::contains(refusal(optimizer), words));
  CHECK(test::contains(refusal(with_a_rate{.learning_rate = none}), "learning_rate is nan; it"));
}

}  // namespace settings_test
