// The optimizers as values over flat ranges: each performs its operation, also as a run-time
// choice.
#include <vector>

#include <doctest/doctest.h>

#include <parallel/mesh/placement.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/optim/any_optimizer.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/optim/decoupled_lion.hpp>

namespace any_optimizer_test {

using namespace parallel;
using summed = placed_gradient<float, reduced<axis::data>>;
using unsummed = placed_gradient<float, partial<axis::data>>;
using adamw_or_lion = any_optimizer<decoupled_adamw, decoupled_lion>;

static_assert(optimizer<adamw_or_lion, reference::stream, float, summed>);
static_assert(optimizer<decoupled_lion, reference::stream, bf16, summed>);
static_assert(!optimizer<adamw_or_lion, reference::stream, float, unsummed>);

/// The weights after two updates.
template <class Optimizer>
std::vector<float> run(Optimizer const& rule) {
  std::vector<float> weights{1, -2, 3}, gradients{4, -8, 0};
  std::vector<std::vector<float>> states(rule.state_names().size(), std::vector<float>(3));
  std::vector<std::span<float>> views(states.begin(), states.end());
  reference::stream s;
  float const scale = 0.5F;
  for (int step = 1; step <= 2; ++step) {
    rule.update(s, update_ranges<float, summed>{weights, weights, views, {gradients}},
                {step, 0.25, &scale});
    for (float& g : gradients) g *= -3;
  }
  return weights;
}

TEST_CASE("any_optimizer: an optimizer chosen at run time gives the bits of that optimizer") {
  decoupled_adamw const adam{.learning_rate = 0.5, .weight_decay = 0.125};
  decoupled_lion const lion{.learning_rate = 0.5, .weight_decay = 0.125};
  CHECK(run(adamw_or_lion(adam)) == run(adam));
  CHECK(run(adamw_or_lion(lion)) == run(lion));
  CHECK(run(adam) != run(lion));
  CHECK(adamw_or_lion(adam).state_names().size() == 2);
  REQUIRE(adamw_or_lion(lion).state_names().size() == 1);
  CHECK(adamw_or_lion(lion).state_names()[0] == "exp_avg");
}

TEST_CASE("Lion: the decay follows the schedule, not the learning rate") {
  // two steps with lr 0.5 * 0.25 = 1/8 and decay 1 - 0.25 * 0.125 = 31/32, all exact
  float const decay = 31.0F / 32.0F;
  auto const after_two_updates = [&](float weight, float sign) {
    float const after_one_update = weight * decay - 0.125F * sign;
    return after_one_update * decay + 0.125F * sign;  // the gradient has the opposite sign
  };
  decoupled_lion const lion{.learning_rate = 0.5, .weight_decay = 0.125};
  CHECK(run(lion) == std::vector<float>{after_two_updates(1, 1), after_two_updates(-2, -1),
                                        after_two_updates(3, 0)});
}

}  // namespace any_optimizer_test
