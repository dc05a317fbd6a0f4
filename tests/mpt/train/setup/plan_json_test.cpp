// The plan as JSON has the figures of the plan as text.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/train/setup/plan_json.hpp>
#include <mpt/train/setup/plan_run.hpp>
#include <parallel/support/files.hpp>

namespace plan_json_test {
namespace {

using mpt::console::bytes;
using mpt::console::grouped;
using nlohmann::ordered_json;

mpt::train_config configuration() {
  mpt::train_config config;
  config.run.name = "tiny";
  config.model.d_model = 24;
  config.model.n_heads = 4;
  config.model.n_layers = 3;
  config.model.vocab_size = 38;
  config.model.max_seq_len = 12;
  config.data.train_loader.max_seq_len = 12;
  config.run.max_duration = {3, mpt::time_unit::batch};
  config.data.global_train_batch_size = 12;
  config.data.device_train_microbatch_size = 3;
  config.execution.zero_stage = 3;
  config.checkpoint.save_folder = "somewhere";
  return config;
}

/// The value of a row of a plan's text.
std::string value_of(std::string const& text, std::string const& name) {
  auto const begin = text.find("│ " + name + "  ");
  REQUIRE(begin != std::string::npos);
  auto const end = text.find(" │\n", begin);
  auto value = text.substr(begin, end - begin).substr(std::string("│ ").size() + name.size());
  value.erase(0, value.find_first_not_of(' '));
  value.erase(value.find_last_not_of(' ') + 1);
  return value;
}

TEST_CASE("plan as JSON: every figure is that of the text") {
  auto config = configuration();
  config.execution.parallelism.tensor = config.execution.parallelism.pipeline = 2;
  auto plan = mpt::plan_run<parallel::bf16>(config, 8, 1 << 20);
  auto const text = mpt::describe_plan(config, plan, 8, 3);
  auto const json = mpt::json_of_plan(config, plan, 8, 3);
  CAPTURE(text);
  CHECK(value_of(text, "parameters") == grouped(json["model"]["parameters"].get<std::int64_t>()));
  CHECK(value_of(text, "ranks") == json["layout"]["text"]);
  CHECK(value_of(text, "pipeline") == json["layout"]["schedule"]["text"]);
  CHECK(json["layout"]["ranks"] == 8);
  CHECK(json["layout"]["data_ranks"] == 2);
  CHECK(json["layout"]["pipeline"] == 2);
  CHECK(json["layout"]["tensor"] == 2);
  CHECK(json["layout"]["shard"] == 2);
  CHECK(json["layout"]["zero_stage"] == 3);
  auto const& batch = json["batch"];
  CHECK(value_of(text, "batch") ==
        fmt::format("{} sequences of {} = {} data ranks × {} microbatches of {}",
                    batch["sequences"].get<int>(), batch["tokens_of_sequence"].get<int>(),
                    json["layout"]["data_ranks"].get<int>(), batch["microbatches"].get<int>(),
                    batch["microbatch"].get<int>()));
  CHECK(batch["tokens"] == 144);
  CHECK(json["tokens"] == 432);
  CHECK(value_of(text, "steps") == grouped(json["steps"].get<std::int64_t>()));
  CHECK(value_of(text, "FLOPs per token")
            .starts_with(mpt::console::count(json["flops_per_token"].get<double>())));
  auto const& memory = json["memory"];
  auto const size = [](ordered_json const& number) { return bytes(number.get<double>()); };
  CHECK(value_of(text, "memory per rank") == size(memory["total_bytes"]));
  for (auto const& [row, key] :
       std::vector<std::pair<std::string, std::string>>{{"  parameters", "parameters"},
                                                        {"  gradients", "gradients"},
                                                        {"  master weights", "master_weights"},
                                                        {"  optimizer", "optimizer_states"},
                                                        {"  unit buffers", "buffers"},
                                                        {"  activations", "activations"}}) {
    std::string const name = row;
    CAPTURE(name);
    CHECK(value_of(text, row) == size(memory["bytes"][key]));
    CHECK(memory["bytes"][key].get<double>() > 0);
  }
  REQUIRE(memory["by_pipeline_rank"].size() == 2);
  CHECK(value_of(text, "by pipeline rank") ==
        size(memory["by_pipeline_rank"][0]["total_bytes"]) + ", " +
            size(memory["by_pipeline_rank"][1]["total_bytes"]));
  CHECK(value_of(text, "available per rank") == size(memory["available_bytes"]));
  CHECK(value_of(text, "checkpoint per rank").starts_with(size(memory["checkpoint_bytes"]) + ","));
  CHECK(memory["fits"] == true);
}

TEST_CASE("plan as JSON: kinds of memory add up, and what is not known is null") {
  auto config = configuration();
  auto const plan = mpt::plan_run<float>(config, 2);
  auto const memory = mpt::json_of_plan(config, plan, 2, 3)["memory"];
  double sum = 0;
  for (auto const& [kind, size] : memory["bytes"].items()) sum += size.get<double>();
  CHECK(sum == memory["total_bytes"].get<double>());
  CHECK(memory["available_bytes"].is_null());
  CHECK(memory["fits"].is_null());
  auto tight = plan;
  tight.available = tight.memory.total() - 1;
  CHECK(mpt::json_of_plan(config, tight, 2, 3)["memory"]["fits"] == false);
}

TEST_CASE("step as JSON: the actions of each pipeline rank, which wait for earlier ones") {
  auto config = configuration();
  config.execution.parallelism.pipeline = 2;
  auto const plan = mpt::plan_run<float>(config, 2);
  auto const plans = mpt::step_plans_of<float>(config.model, config.optimizer, config.execution,
                                               config.run, plan, false);
  auto const step = mpt::json_of_step(plans);
  REQUIRE(step.size() == 2);
  for (std::size_t rank = 0; rank < step.size(); ++rank) {
    CHECK(step[rank]["pipeline_rank"] == rank);
    CHECK(step[rank]["microbatches"] == 4);
    REQUIRE(step[rank]["actions"].size() == plans[rank].actions.size());
    std::size_t forward_passes = 0;
    for (std::size_t i = 0; i < step[rank]["actions"].size(); ++i) {
      auto const& action = step[rank]["actions"][i];
      forward_passes += action["action"].get<std::string>().starts_with("forward") ? 1 : 0;
      for (auto const& other : action["after"]) CHECK(other.get<std::size_t>() < i);
      CHECK(!action["stream"].get<std::string>().empty());
    }
    CHECK(forward_passes >= 4);
  }
}

}  // namespace
}  // namespace plan_json_test
