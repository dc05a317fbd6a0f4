// The settings that optimizers expose.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include <parallel/optim/any_optimizer.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/optim/decoupled_lion.hpp>
#include <parallel/optim/settings.hpp>

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

}  // namespace settings_test
