// What optimizers show of themselves.
#include <doctest/doctest.h>

#include <parallel/optim/any_optimizer.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/optim/decoupled_lion.hpp>
#include <parallel/optim/settings.hpp>

namespace settings_test {

using parallel::settings_of;

struct two_numbers {
  double rate = 0.5, momentum = 0.25;
};
struct with_a_gap {
  double learning_rate = 0.5;
  int steps = 3;
};
struct silent {
  int steps = 3;
};
class hidden {
 public:
  double rate() const { return rate_; }

 private:
  double rate_ = 0.5;
};

TEST_CASE("an optimizer shows its settings by name, and a struct of doubles without") {
  CHECK(settings_of(parallel::decoupled_lion{.learning_rate = 0.5}) ==
        "learning_rate 0.5, beta1 0.9, beta2 0.99, weight_decay 0");
  CHECK(settings_of(parallel::any_optimizer<parallel::decoupled_adamw, parallel::decoupled_lion>(
            parallel::decoupled_lion{})) ==
        "choice 1, learning_rate 1e-04, beta1 0.9, beta2 0.99, weight_decay 0");
  CHECK(settings_of(two_numbers{}) == "0.5, 0.25");
  CHECK(settings_of(with_a_gap{}) == "learning_rate 0.5");
  CHECK(settings_of(silent{}).empty());
  CHECK(settings_of(hidden{}).empty());
}

}  // namespace settings_test
