// A step whose numbers are not finite leaves no trace, where that is asked for; and a wish to stop
// reaches every rank with the same step.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/stepper.hpp>
#include <support/given_gradients.hpp>

namespace stepper_finite_test {

using parallel::index;
namespace zero = parallel::zero;

constexpr int ranks = 3;
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// What rank 0 holds after steps of these numbers; a step in `bad` has a NaN on rank 1.
std::vector<float> weights_after(std::vector<int> const& steps, std::vector<int> const& bad,
                                 zero::level level, zero::reduction_order order) {
  std::vector<float> out;
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    parallel::host::stream compute, exchanges;
    parallel::arena memory(device.allocate<std::byte>(4096));
    test::given_gradients<float> model(
        {{"a", {4, 3}, std::vector<float>(12, 2.0F), std::vector<float>(12, 0.5F)},
         {"b", {5}, std::vector<float>(5, -1.0F), std::vector<float>(5, 0.25F)}});
    parallel::train::stepper step(model, device, comm, parallel::decoupled_adamw{},
                                  {.level = level, .keep_finite = true, .order = order});
    model.set_weights(step);
    for (int const number : steps) {
      bool const spoilt = std::ranges::find(bad, number) != bad.end();
      float const value = spoilt && comm.rank() == 1 ? nan : static_cast<float>(number);
      model.set_gradient(1, {value, 1, 2, 3, 4});
      std::vector<test::given_microbatch<float>> const batches{{1, 1}};
      std::vector<index> const first{comm.rank()};
      step.ask_to_stop(comm.rank() == 2 && number == 2);
      auto const result =
          step.step(compute, exchanges, memory, std::span(batches), std::span(first),
                    {.step = static_cast<std::uint32_t>(number)}, 1.0);
      CHECK(result.updated == !spoilt);
      CHECK(std::isfinite(result.gradient_norm) == !spoilt);
      CHECK(result.stop_asked == (number == 2));
    }
    step.gather_values(compute);
    if (comm.rank() == 0)
      model.for_each_held(step, [&](std::size_t, index, std::span<float> values) {
        out.insert(out.end(), values.begin(), values.end());
      });
  });
  return out;
}

TEST_CASE("after a step that is not finite everything is as if it had not been") {
  using enum zero::reduction_order;
  for (auto const level :
       {zero::level::none, zero::level::optimizer, zero::level::gradients, zero::level::parameters})
    for (auto const order : {by_rank, canonical_tree}) {
      CAPTURE(static_cast<int>(level));
      CAPTURE(static_cast<int>(order));
      auto const without = weights_after({0, 3, 4}, {}, level, order);
      CHECK(weights_after({0, 1, 2, 3, 4}, {1, 2}, level, order) == without);
      CHECK(weights_after({0, 1, 2, 3, 4}, {}, level, order) != without);
    }
}

}  // namespace stepper_finite_test
