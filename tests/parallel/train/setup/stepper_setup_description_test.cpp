// Every option of a stepper, optimizer or parameter that differs between ranks is refused by name
// when the stepper is created.
#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/optim/decoupled_lion.hpp>
#include <parallel/train/setup/stepper_setup.hpp>

#include "parallel/support/files.hpp"
#include "support/ring/ring_run.hpp"

namespace stepper_description_test {

namespace zero = parallel::zero;
using change = std::function<void(test::layout&)>;

/// The message of the refusal on rank 1 of two ranks that create different steppers.
std::string refusal(test::layout const& run_layout, change const& other) {
  return test::message_of([&] {
    parallel::threads::run(2, [&](parallel::threads::communicator& comm) {
      auto own_options = run_layout;
      if (comm.rank() == 1) other(own_options);
      test::ring_rank<> const one(parallel::any_communicator(std::move(comm)), own_options);
    });
  });
}

TEST_CASE(
    "stepper description: ranks that would hang, or train different models, are refused first") {
  test::layout const sharded{.ranks = 2, .level = zero::level::parameters, .microbatch = 3};
  test::layout const piped{.microbatch = 3, .pipeline = 2};
  auto sliced = test::layout{.microbatch = 3, .tensor = 2};
  sliced.model.attention.heads = sliced.model.attention.key_heads = 2;
  auto const check_message = [](char const* first, char const* second) {
    return parallel::concat("ranks make different steppers: rank 0 has ", first, "; rank 1 has ",
                            second, "; give all ranks the same options, optimizers and model");
  };
  for (auto const& [run_layout, other, message] :
       std::vector<std::tuple<test::layout, change, std::string>>{
           {sharded, [](auto& l) { l.reshard = false; },
            check_message("stepper_options::reshard_after_forward true",
                          "stepper_options::reshard_after_forward false")},
           {sharded, [](auto& l) { l.reduce_every_microbatch = false; },
            check_message("stepper_options::reduce_every_microbatch true",
                          "stepper_options::reduce_every_microbatch false")},
           {sharded, [](auto& l) { l.bucket_bytes = 1 << 20; },
            check_message("stepper_options::bucket_bytes 1",
                          "stepper_options::bucket_bytes 1048576")},
           {sharded, [](auto& l) { l.gather_before_use = true; },
            check_message("stepper_options::gather_before_use false",
                          "stepper_options::gather_before_use true")},
           {sharded, [](auto& l) { l.frozen = {"wte"}; }, "tied), frozen; give"},
           {piped, [](auto& l) { l.schedule.schedule = "gpipe"; },
            check_message("stepper_options::pipeline.schedule 1f1b",
                          "stepper_options::pipeline.schedule gpipe")},
           {piped, [](auto& l) { l.schedule.blocks = {1, 2}; },
            check_message("stepper_options::pipeline.blocks divided evenly",
                          "stepper_options::pipeline.blocks 1 2")},
           {piped, [](auto& l) { l.model.blocks = 2; }, "rank 1 has a model of 2 blocks"},
           {sliced, [](auto& l) { l.model.blocks = 2; }, "rank 1 has a model of 2 blocks"}}) {
    CHECK(refusal(run_layout, [](auto&) {}).empty());
    CHECK(test::contains(refusal(run_layout, other), message));
    CHECK(test::contains(refusal(run_layout, other), "ranks make different steppers: "));
  }
}

TEST_CASE("stepper description: an optimizer is described by its states and its visible settings") {
  std::vector<std::string> out;
  parallel::train::describe_optimizers(
      std::vector{parallel::decoupled_lion{}, parallel::decoupled_lion{.learning_rate = 0.5}}, out);
  CHECK(out == std::vector<std::string>{
                   "optimizer 0 with states exp_avg", "optimizer 0 with learning_rate 1e-04",
                   "optimizer 0 with beta1 0.9", "optimizer 0 with beta2 0.99",
                   "optimizer 0 with weight_decay 0", "optimizer 1 with states exp_avg",
                   "optimizer 1 with learning_rate 0.5", "optimizer 1 with beta1 0.9",
                   "optimizer 1 with beta2 0.99", "optimizer 1 with weight_decay 0"});
}

struct optimizer_of_states {
  std::array<std::string_view, 2> names;
  [[nodiscard]] std::span<std::string_view const> state_names() const { return names; }
};

TEST_CASE("stepper description: optimizers have settings that train and states of two names") {
  auto const refusal_of = [](auto const& optimizer) {
    return test::message_of([&] { parallel::train::require_optimizers(std::array{optimizer}); });
  };
  CHECK(refusal_of(optimizer_of_states{{"mean", "square"}}).empty());
  CHECK(test::contains(refusal_of(optimizer_of_states{{"mean", "mean"}}),
                       "the optimizer names two states \"mean\"; give each its own name"));
  CHECK(test::contains(refusal_of(parallel::decoupled_lion{.learning_rate = -1}),
                       "learning_rate is -1; it must be a finite number, 0 or more"));
}

}  // namespace stepper_description_test
