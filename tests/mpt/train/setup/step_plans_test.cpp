// The step plans that print_plan=true prints.
#include <doctest/doctest.h>

#include <string>

#include <mpt/train/setup/plan_run.hpp>
#include <mpt/train/setup/step_plans.hpp>

namespace step_plans_test {
namespace {

mpt::train_config configuration() {
  mpt::train_config config;
  config.model.d_model = 24;
  config.model.n_heads = 3;
  config.model.n_layers = 4;
  config.model.vocab_size = 37;
  config.model.max_seq_len = 12;
  config.data.train_loader.max_seq_len = 12;
  config.run.max_duration = {3, mpt::time_unit::batch};
  config.data.global_train_batch_size = 16;
  config.data.device_train_microbatch_size = 2;
  config.execution.zero_stage = 3;
  config.execution.parallelism.pipeline = 2;
  config.execution.parallelism.schedule = "1f1b";
  return config;
}

TEST_CASE("step plans: every pipeline rank has a list of actions, with the model's units") {
  auto const config = configuration();
  auto const plans = mpt::step_plans_of<float>(config.model, config.optimizer, config.execution,
                                               config.run, mpt::plan_run<float>(config, 4), false);
  REQUIRE(plans.size() == 2);
  CHECK(plans[0].microbatches == 4);
  auto const text = mpt::describe_step(plans);
  for (std::string const line :
       {"pipeline rank 1 of 2, 4 microbatches: ", "unshard transformer.wte for part -1",
        "receive_gradient of stage 0, microbatch 3", "reduce_tied transformer.wte",
        "pipeline rank 1: "}) {
    CAPTURE(text);
    CHECK(text.find(line) != std::string::npos);
  }
}

struct gpu {
  static constexpr bool waits_for_all_streams = true;
};
struct cpu {};

TEST_CASE(
    "step plans: for devices that wait for all of their streams, lists can run in one queue") {
  auto const config = configuration();
  auto const plan = mpt::plan_run<float>(config, 4);
  auto const lists = [&](bool one_queue) {
    return mpt::step_plans_of<float>(config.model, config.optimizer, config.execution, config.run,
                                     plan, one_queue);
  };
  auto const gpu_plans = lists(parallel::train::waits_for_all_streams<gpu>);
  auto const cpu_plans = lists(parallel::train::waits_for_all_streams<cpu>);
  CHECK(parallel::train::verify_in_one_queue(gpu_plans).good());
  CHECK_FALSE(parallel::train::verify_in_one_queue(cpu_plans).good());
  CHECK(mpt::describe_step(gpu_plans) != mpt::describe_step(cpu_plans));
}

TEST_CASE("step plans: a single rank has one list and no links") {
  auto config = configuration();
  config.execution.parallelism.pipeline = 1;
  config.execution.zero_stage = 0;
  auto const plans = mpt::step_plans_of<float>(config.model, config.optimizer, config.execution,
                                               config.run, mpt::plan_run<float>(config, 1), false);
  REQUIRE(plans.size() == 1);
  CHECK(plans[0].microbatches == 8);
  CHECK(plans[0].links.empty());
}

}  // namespace
}  // namespace step_plans_test
