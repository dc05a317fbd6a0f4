// check_optimizer accepts the library's optimizers and names the mistakes of others.
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <parallel/ops/custom.hpp>
#include <parallel/optim/any_optimizer.hpp>
#include <parallel/optim/check_optimizer.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/optim/decoupled_lion.hpp>

#include "parallel/support/files.hpp"

namespace check_optimizer_test {
namespace {

/// Descent with momentum and a mistake, or none.
struct descent {
  std::string wrong;
  double learning_rate = 0.5;
  mutable double updates = 0;

  std::span<std::string_view const> state_names() const {
    static constexpr std::array<std::string_view, 1> names = {"velocity"};
    return std::span(names).first(wrong == "unnamed state" ? 0 : 1);
  }

  template <class Stream, class T, parallel::reduced_gradient Gradient>
  void update(Stream& s, parallel::update_ranges<T, Gradient> const& ranges,
              parallel::step_info<T> const& info) const {
    if (wrong == "nothing") return;
    updates += wrong == "keeps" ? 1 : 0;
    double const factor = wrong == "factor" ? 1 : info.learning_rate_factor;
    double const early = wrong == "early" && *info.gradient_scale > 0 ? 2 : 1;
    parallel::ops::custom(
        s,
        [](auto values, auto velocity, auto gradients, double rate, T const* scale, bool unscaled,
           bool by_norm) {
          double norm = by_norm ? 0 : 1;
          if (by_norm)
            for (double const g : gradients) norm += std::fabs(g * *scale);
          for (std::size_t i = 0; i < values.size(); ++i) {
            velocity[i] = 0.9 * velocity[i] + gradients[i] * (unscaled ? 1 : *scale) / norm;
            values[i] -= rate * velocity[i];
          }
        },
        parallel::ops::updates(ranges.values), parallel::ops::updates(ranges.states[0]),
        ranges.gradients.elements, learning_rate * factor * early + updates, info.gradient_scale,
        wrong == "unscaled", wrong == "norm");
  }
};

TEST_CASE("check_optimizer: the library's optimizers pass, and each mistake is named") {
  auto const refusal = [](auto const& optimizer) {
    return test::message_of([&] { parallel::check_optimizer(optimizer); });
  };
  CHECK(refusal(parallel::decoupled_adamw{.weight_decay = 0.1}).empty());
  CHECK(refusal(parallel::decoupled_lion{.weight_decay = 0.1}).empty());
  CHECK(refusal(parallel::any_optimizer<parallel::decoupled_adamw, parallel::decoupled_lion>(
                    parallel::decoupled_lion{}))
            .empty());
  CHECK(refusal(descent{}).empty());
  struct {
    char const *wrong, *words;
  } const cases[] = {{"nothing", "no element changes"},
                     {"keeps", "the same updates give other values when they are made again"},
                     {"norm", "an element's update depends on the range that it is in"},
                     {"unscaled", "the update is another when gradients are 8 times as large"},
                     {"early", "the update is another when its tasks run later"},
                     {"factor", "elements change though the learning rate factor is 0"},
                     {"unnamed state",
                      "the optimizer's update uses state 0 (from 0), but its state_names() has 0"}};
  for (auto const& [wrong, words] : cases) CHECK(test::contains(refusal(descent{wrong}), words));
}

}  // namespace
}  // namespace check_optimizer_test
