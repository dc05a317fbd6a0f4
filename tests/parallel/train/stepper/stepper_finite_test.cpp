// A step whose loss or gradient is not finite (with keep_finite) or above a limit leaves weights
// and optimizer states unchanged. A request to stop reaches every rank in the same step.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/stepper.hpp>
#include <support/given_gradients.hpp>

namespace stepper_finite_test {

using parallel::index;
using parallel::train::step_limits;
using parallel::train::step_outcome;
namespace zero = parallel::zero;
using enum zero::reduction_order;

constexpr int ranks = 3;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr auto levels = {zero::level::none, zero::level::optimizer, zero::level::gradients,
                         zero::level::parameters};

/// A step's number, the value that replaces an element of rank 1's gradient, and the limits.
struct given_step {
  int number = 0;
  float of_rank_1 = 0;
  step_limits limits = {};
  step_outcome expected = step_outcome::updated;
};

struct outcome {
  std::vector<float> weights;  // on rank 0 after the last step
  double loss = 0;             // mean per token in the last step
  double norm = 0;
  double scale = 0;
};

/// Runs these steps on three ranks. Rank 1 has two tokens, the other ranks one.
outcome outcome_after(std::vector<given_step> const& steps, zero::level level,
                      zero::reduction_order order, bool keep_finite = true,
                      parallel::train::clipping clip = {}) {
  outcome out;
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    parallel::host::stream compute, exchanges;
    parallel::arena memory(device.allocate<std::byte>(4096));
    test::given_gradients<float> model(
        {{"a", {4, 3}, std::vector<float>(12, 2.0F), std::vector<float>(12, 0.5F)},
         {"b", {5}, std::vector<float>(5, -1.0F), std::vector<float>(5, 0.25F)}});
    parallel::train::stepper step(
        model, device, comm, parallel::decoupled_adamw{},
        {.level = level, .clip = clip, .keep_finite = keep_finite, .order = order});
    model.set_weights(step);
    for (auto const& step_values : steps) {
      float const value =
          comm.rank() == 1 ? step_values.of_rank_1 : static_cast<float>(step_values.number);
      model.set_gradient(1, {value, 1, 2, 3, 4});
      std::vector<test::given_microbatch<float>> const batches{{1, comm.rank() == 1 ? 2 : 1}};
      std::vector<index> const first{comm.rank()};
      step.ask_to_stop(comm.rank() == 2 && step_values.number == 2);
      step.limit(step_values.limits);
      auto const result = step.step(
          compute, exchanges, memory,
          {batches, first, {.step = static_cast<std::uint32_t>(step_values.number)}, 1.0});
      CHECK(result.outcome == step_values.expected);
      CHECK(result.updated() == (step_values.expected == step_outcome::updated));
      CHECK(std::isfinite(result.gradient_norm) == std::isfinite(step_values.of_rank_1));
      CHECK(result.stop_asked == (step_values.number == 2));
      if (comm.rank() == 0) {
        out.loss = result.sums.mean_loss();
        out.norm = result.gradient_norm;
        out.scale = result.gradient_scale;
      }
    }
    step.gather_values(compute);
    if (comm.rank() == 0)
      model.for_each_held(step, [&](std::size_t, index, std::span<float> values) {
        out.weights.insert(out.weights.end(), values.begin(), values.end());
      });
  });
  return out;
}

/// A step whose gradient is finite on all ranks.
given_step plain(int number) { return {number, static_cast<float>(number)}; }

TEST_CASE("stepper: a step that is not finite leaves no trace") {
  given_step const one{1, nan, {}, step_outcome::not_finite};
  given_step const two{2, nan, {1e30, 1e30}, step_outcome::not_finite};
  for (auto const level : levels)
    for (auto const order : {by_rank, canonical_tree}) {
      CAPTURE(static_cast<int>(level));
      CAPTURE(static_cast<int>(order));
      auto const unspoilt = outcome_after({plain(0), plain(3), plain(4)}, level, order).weights;
      CHECK(outcome_after({plain(0), one, two, plain(3), plain(4)}, level, order).weights ==
            unspoilt);
      CHECK(
          outcome_after({plain(0), plain(1), plain(2), plain(3), plain(4)}, level, order).weights !=
          unspoilt);
    }
}

TEST_CASE("stepper: a step above a limit leaves no trace, a step at the limit updates") {
  auto const just_below = [](double number) { return std::nextafter(number, 0.0); };
  using enum step_outcome;
  for (auto const level : levels)
    for (auto const order : {by_rank, canonical_tree})
      for (bool const keep_finite : {false, true}) {
        CAPTURE(static_cast<int>(level));
        CAPTURE(static_cast<int>(order));
        CAPTURE(keep_finite);
        auto const run_all = [&](std::vector<given_step> const& steps,
                                 parallel::train::clipping clip = {}) {
          return outcome_after(steps, level, order, keep_finite, clip);
        };
        auto const unspoilt = run_all({plain(0), plain(3), plain(4)}).weights;
        auto const spoilt_step = run_all({plain(0), plain(1), plain(3), plain(4)}).weights;
        REQUIRE(spoilt_step != unspoilt);
        auto const spike = run_all({plain(0), plain(1)});
        // Computed by hand: three losses of 1 over four tokens. Tensor a has 3 x 0.5 in 12
        // elements, tensor b three times (1, 1, 2, 3, 4), all divided by the four tokens.
        CHECK(spike.loss == 0.75);
        CHECK(spike.norm == doctest::Approx(std::sqrt(12 * 2.25 + 9 * 31) / 4).epsilon(1e-14));
        auto const limited = [&](double loss, double norm, step_outcome expected) {
          return run_all({plain(0), {1, 1, {loss, norm}, expected}, plain(3), plain(4)}).weights;
        };
        CHECK(limited(0.75, spike.norm, updated) == spoilt_step);
        CHECK(limited(just_below(0.75), spike.norm, above_limit) == unspoilt);
        CHECK(limited(0.75, just_below(spike.norm), above_limit) == unspoilt);
        CHECK(limited(just_below(0.75), infinity, above_limit) == unspoilt);
        CHECK(limited(infinity, just_below(spike.norm), above_limit) == unspoilt);
        // The norm is the one before clipping.
        auto const clipped = run_all({{1, 1, {infinity, spike.norm}, updated}},
                                     {parallel::train::clipping_kind::norm, spike.norm / 8});
        CHECK(clipped.norm == spike.norm);
        CHECK(clipped.scale == doctest::Approx(1.0 / 32).epsilon(1e-5));
      }
}

TEST_CASE("stepper: ranks with different limits get an error") {
  for (bool const keep_finite : {false, true}) {
    std::string message;
    try {
      parallel::threads::run(2, [&](parallel::threads::communicator& comm) {
        parallel::host::device device;
        parallel::host::stream compute, exchanges;
        parallel::arena memory(device.allocate<std::byte>(4096));
        test::given_gradients<float> model({{"a", {2}, {1, 1}, {1, 1}}});
        parallel::train::stepper step(model, device, comm, parallel::decoupled_adamw{},
                                      {.keep_finite = keep_finite});
        model.set_weights(step);
        if (comm.rank() == 1) step.limit({.loss = 2});
        std::vector<test::given_microbatch<float>> const batches{{1, 1}};
        std::vector<index> const first{comm.rank()};
        static_cast<void>(step.step(compute, exchanges, memory, {batches, first, {}, 1.0}));
      });
    } catch (parallel::error const& thrown) {
      message = thrown.what();
    }
    CAPTURE(message);
    CHECK(message.find("ranks begin different steps: rank 0 begins step 0 of 1 microbatch with "
                       "learning rate factor 1; rank 1 begins step 0 of 1 microbatch with "
                       "learning rate factor 1, limits with fingerprint ") != std::string::npos);
  }
}

}  // namespace stepper_finite_test
