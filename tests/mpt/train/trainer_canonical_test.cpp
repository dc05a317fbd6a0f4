// Whole runs with reduction_order: canonical. Parameters, optimizer states, losses, gradient norms
// and evaluation losses have the same bits on every data, ZeRO and pipeline layout, also when a run
// is resumed on another layout.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "mpt/train/tiny_run.hpp"

namespace trainer_canonical_test {
namespace {

using namespace tiny_run;
using parallel::bf16;
using parallel::train::clipping_kind;
using parallel::zero::reduction_order;
using test::contains;
using test::message_of;

/// The results that must not depend on the layout: all tensors of the last checkpoint, and each
/// line of metrics without the keys of time and memory, the load of a rank, and entropies, which
/// are added in the order of ranks.
struct outcome {
  std::map<std::string, std::vector<std::byte>> tensors;
  std::vector<std::string> metrics;
  bool operator==(outcome const&) const = default;
};

/// A configuration in the canonical order. A batch of 11 sequences has 5 microbatches of 2 and one
/// of 1; the 7 held-out sequences have 3 of 2 and one of 1.
train_config canonical_config(run_files const& files, double batches) {
  auto config = divisible_config(files, batches);
  config.execution.reduction_order = reduction_order::canonical_tree;
  config.data.global_train_batch_size = 11;
  config.data.eval_loaders = {files.held_out()};
  config.evaluation.eval_interval = {1, time_unit::batch};
  return config;
}

/// Trains on a layout; with autoresume, the run continues from the checkpoints of `name`.
template <class T>
outcome run(run_files const& files, train_config config, grid const& layout,
            std::string const& name) {
  config = with_layout(std::move(config), layout);
  config.checkpoint.save_folder = files.folder / name;
  config.output.metrics_file = files.folder / (name + ".jsonl");
  auto const summary = train_on<T>(
      config, layout.ranks(), [] { return parallel::host::device(); },
      [&](auto const& device, parallel::train::memory_plan const& plan) {
        CHECK(plan.trees > 0);
        CHECK(device.peak_bytes() <= plan.total());  // some ranks may have fewer microbatches
        if (layout.ranks() == 1) CHECK(device.peak_bytes() == plan.total());
      });
  outcome out{content_of(summary.checkpoint), {}};
  for (auto record : records(config.output.metrics_file)) {
    nlohmann::json selected;
    for (auto const& [key, value] : record.items())
      if (!key.starts_with("time/") && !key.starts_with("throughput/") &&
          !key.starts_with("memory/") && key != "experts/fullest_rank" &&
          !(key.starts_with("experts/") && key.ends_with("entropy")))
        selected[key] = value;
    out.metrics.push_back(selected.dump());
  }
  return out;
}

std::vector<grid> const layouts{
    {.data = 2},
    {.data = 3},
    {.data = 4},
    {.data = 7},  // more ranks than microbatches
    {.zero_stage = 1, .data = 2},
    {.zero_stage = 1, .data = 4},
    {.zero_stage = 2, .data = 3},
    {.zero_stage = 3, .data = 2},
    {.zero_stage = 3, .data = 4, .parallelism = {.shard = 2}},
    {.parallelism = {.pipeline = 2}},
    {.zero_stage = 3, .data = 2, .parallelism = {.pipeline = 2}},
    {.zero_stage = 1,
     .data = 2,
     .parallelism = {.pipeline = 2, .schedule = "zb-v", .stages_per_rank = 2}},
};

TEST_CASE_TEMPLATE("canonical order: runs have the same bits on every layout, with any clipping", T,
                   float, bf16) {
  run_files const files;
  auto config = canonical_config(files, 3);
  int number = 0;
  for (auto const& clip : {parallel::train::clipping{},
                           {clipping_kind::norm, 0.05},
                           {clipping_kind::value, 2e-3},
                           {clipping_kind::adaptive, 2e-2}}) {
    CAPTURE(static_cast<int>(clip.kind));
    config.optimizer.clip = clip;
    auto const name = [&] { return "run" + std::to_string(number++); };
    auto const expected = run<T>(files, config, {}, name());
    REQUIRE(expected.tensors.contains("transformer.wte.weight#exp_avg"));
    REQUIRE(expected.metrics.size() == 6);  // three batches with an evaluation each
    CHECK(contains(expected.metrics[0], "l2_norm/grad/global"));
    CHECK(contains(expected.metrics[1], "metrics/eval/LanguageCrossEntropy"));
    for (std::size_t g = 0; g < layouts.size(); ++g) {
      CAPTURE(g);
      auto const other = run<T>(files, config, layouts[g], name());
      CHECK(other.metrics == expected.metrics);
      CHECK(other.tensors == expected.tensors);
    }
  }
}

TEST_CASE_TEMPLATE("canonical order: Muon with AdamW has the same bits on every layout", T, float,
                   bf16) {
  run_files const files;
  auto config = canonical_config(files, 3);
  config.optimizer.name = "muon";
  config.optimizer.muon.emplace().learning_rate = 0.02;
  auto const expected = run<T>(files, config, {}, "one");
  CHECK(expected.tensors.contains("transformer.wte.weight#exp_avg"));
  CHECK(!expected.tensors.contains("transformer.wte.weight#momentum_buffer"));
  CHECK(expected.tensors.contains("transformer.blocks.1.ffn.up_proj.weight#momentum_buffer"));
  CHECK(!expected.tensors.contains("transformer.blocks.1.ffn.up_proj.weight#exp_avg"));
  auto const rates = nlohmann::json::parse(expected.metrics[0]);
  CHECK(static_cast<double>(rates.at("lr-Muon/group0")) ==
        doctest::Approx(20 * static_cast<double>(rates.at("lr-DecoupledAdamW/group0"))));
  for (std::size_t g = 0; g < layouts.size(); g += 2) {
    CAPTURE(g);
    CHECK(run<T>(files, config, layouts[g], "run" + std::to_string(g)) == expected);
  }
}

TEST_CASE_TEMPLATE(
    "canonical order: routers that know the loads of the batch before have the same bits on every "
    "layout, also resumed on another",
    T, float, bf16) {
  run_files const files;
  auto config = canonical_config(files, 4);
  config.data.global_train_batch_size = 16;
  config.model.experts = mpt::experts_config{.count = 4,
                                             .top_k = 2,
                                             .loss_weight = 0.5,
                                             .bias_rate = 0.01,
                                             .balance_set = parallel::balance_set::global_batch};
  config.optimizer.clip = {clipping_kind::norm, 0.05};
  auto const expected = run<T>(files, config, {}, "one");
  for (int layer = 0; layer < 4; ++layer) {
    auto const name = parallel::concat("transformer.blocks.", layer, ".ffn.router.expert_loads");
    CHECK(!expected.tensors.contains(name + "#exp_avg"));
    auto const& bytes = expected.tensors.at(name);
    REQUIRE(bytes.size() == 4 * sizeof(float));
    std::array<float, 4> loads{};
    std::memcpy(loads.data(), bytes.data(), bytes.size());
    CHECK(loads[0] + loads[1] + loads[2] + loads[3] == 16 * length * 2);
    for (float const load : loads) CHECK(load == std::floor(load));
  }
  config.checkpoint.autoresume = true;
  std::vector<grid> const grids{
      {.data = 2, .parallelism = {.expert = 2}},
      {.zero_stage = 3, .data = 4, .parallelism = {.expert = 2}},
      {.zero_stage = 2, .data = 4, .parallelism = {.expert = 4}},
      {.zero_stage = 1, .data = 3},
      {.zero_stage = 1, .data = 2, .parallelism = {.pipeline = 2}},
  };
  for (std::size_t g = 0; g < grids.size(); ++g) {
    CAPTURE(g);
    auto const name = "run" + std::to_string(g);
    config.run.max_duration.count = 2;
    (void)run<T>(files, config, grids[g], name);
    config.run.max_duration.count = 4;
    CHECK(run<T>(files, config, grids[(g + 1) % grids.size()], name) == expected);
  }
}

TEST_CASE(
    "Muon: a run on several tensor ranks equals one rank, also when tensor ranks share key heads") {
  run_files const files;
  auto config = divisible_config(files, 3);
  config.model.attn.kv_n_heads = 2;
  config.optimizer.name = "muon";
  config.optimizer.muon.emplace().learning_rate = 0.02;
  std::map<std::string, std::vector<double>> expected;
  int number = 0;
  for (grid const& layout :
       std::vector<grid>{{},
                         {.parallelism = {.tensor = 2}},
                         {.zero_stage = 1, .parallelism = {.tensor = 4}},
                         {.zero_stage = 3,
                         .data = 2,
                         .parallelism = {.tensor = 2, .sequence_parallel = true, .pipeline = 2}}}) {
    CAPTURE(number);
    auto run_config = with_layout(config, layout);
    run_config.checkpoint.save_folder = files.folder / std::to_string(number++);
    std::map<std::string, std::vector<double>> found;
    for (auto const& [name, bytes] :
         content_of(train<double>(run_config, layout.ranks()).checkpoint)) {
      found[name].resize(bytes.size() / sizeof(double));
      std::memcpy(found[name].data(), bytes.data(), bytes.size());
    }
    if (expected.empty()) expected = found;
    REQUIRE(found.contains("transformer.blocks.1.attn.Wqkv.weight#momentum_buffer"));
    for (auto const& entry : expected) {
      auto const& [name, values] = entry;
      CAPTURE(entry.first);
      double largest = 0, difference = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        largest = std::max(largest, std::abs(values[i]));
        difference = std::max(difference, std::abs(values[i] - found.at(name)[i]));
      }
      CHECK(difference <= 1e-9 * largest);
    }
  }
}

TEST_CASE(
    "reduction_order by_rank: bits depend on the number of ranks, unlike in canonical order") {
  run_files const files;
  auto config = canonical_config(files, 3);
  config.data.global_train_batch_size = 12;
  config.output.metrics_file = files.folder / "metrics.jsonl";
  config.execution.reduction_order = reduction_order::by_rank;
  std::map<int, std::map<std::string, double>> metrics;
  for (int const ranks : {1, 4}) {
    (void)train<float>(config, ranks);
    for (auto const& record : records(config.output.metrics_file))
      for (auto const& [key, value] : record.items())
        if (value.is_number()) metrics[ranks][key] = value.get<double>();
  }
  for (std::string const key :
       {"loss/train/total", "l2_norm/grad/global", "metrics/eval/LanguageCrossEntropy"}) {
    CAPTURE(key);
    REQUIRE(metrics.at(1).contains(key));
    CHECK(metrics.at(1).at(key) != metrics.at(4).at(key));
    CHECK(metrics.at(1).at(key) == doctest::Approx(metrics.at(4).at(key)).epsilon(1e-3));
  }
}

TEST_CASE("canonical order: with a tensor axis every data layout has the same bits") {
  run_files const files;
  auto config = canonical_config(files, 2);
  config.optimizer.clip = {clipping_kind::norm, 0.05};
  mpt::parallelism_config const two_tensor_ranks{.tensor = 2, .sequence_parallel = true};
  auto const expected = run<float>(files, config, {.parallelism = two_tensor_ranks}, "one");
  CHECK(run<float>(files, config, {.data = 3, .parallelism = two_tensor_ranks}, "three") ==
        expected);
  CHECK(run<float>(files, config, {.zero_stage = 3, .data = 2, .parallelism = two_tensor_ranks},
                   "zero") == expected);
}

TEST_CASE("canonical order: eval_subset_num_batches selects the same samples on every layout") {
  run_files const files;
  auto config = canonical_config(files, 1);
  config.evaluation.eval_subset_num_batches = 3;
  auto const expected = run<float>(files, config, {}, "one");
  CHECK(contains(expected.metrics.at(1), "metrics/eval/LanguageCrossEntropy"));
  config.evaluation.eval_subset_num_batches = 2;
  CHECK(run<float>(files, config, {}, "less").metrics.at(1) != expected.metrics.at(1));
  config.evaluation.eval_subset_num_batches = 3;
  int number = 0;
  for (auto const& layout : {layouts[0], layouts[2], layouts[7], layouts[10]})
    CHECK(run<float>(files, config, layout, std::to_string(number++)) == expected);
}

TEST_CASE("canonical order: a run resumed with another number of data ranks has the same bits") {
  run_files const files;
  auto config = canonical_config(files, 6);
  config.optimizer.clip = {clipping_kind::adaptive, 2e-2};
  config.checkpoint.autoresume = true;
  auto const expected = run<float>(files, config, {}, "at once");
  int number = 0;
  for (auto const& [first, second] : std::vector<std::pair<grid, grid>>{{layouts[2], layouts[0]},
                                                                        {grid{}, layouts[3]},
                                                                        {layouts[7], layouts[2]},
                                                                        {layouts[0], layouts[10]},
                                                                        {layouts[11], grid{}}}) {
    CAPTURE(number);
    auto const name = "in parts " + std::to_string(number++);
    config.run.max_duration.count = 3;
    (void)run<float>(files, config, first, name);
    config.run.max_duration.count = 6;
    CHECK(run<float>(files, config, second, name) == expected);
  }
}

TEST_CASE("canonical order: a run is not resumed with other microbatches or in another order") {
  run_files const files;
  auto config = canonical_config(files, 1);
  config.checkpoint.save_folder = files.folder / "run";
  fs::path const saved = train<float>(config).checkpoint;
  CHECK(parallel::checkpoint::checkpoint_reader(saved).state().at("canonical_leaf") == 2);

  config.run.max_duration.count = 2;
  config.checkpoint.autoresume = true;
  auto const problem = [&](train_config const& run_config) {
    return message_of([&] { (void)train<float>(run_config); });
  };
  auto other = config;
  other.data.device_train_microbatch_size = 3;
  std::string const advice =
      "; set reduction_order=canonical and device_train_microbatch_size=2 to continue, or take "
      "only the weights with load_weights_only=true";
  CHECK(contains(problem(other),
                 saved.string() +
                     ": was trained with reduction_order canonical and microbatches of 2, this run "
                     "has reduction_order canonical and microbatches of 3" +
                     advice));
  other = config;
  other.execution.reduction_order = reduction_order::by_rank;
  CHECK(contains(problem(other), "this run has reduction_order by_rank" + advice));

  other.checkpoint = {};
  other.checkpoint.load_path = saved;
  other.checkpoint.load_weights_only = true;
  CHECK(problem(config) == "");
  CHECK(problem(other) == "");
}

TEST_CASE("canonical order: a run can begin from a checkpoint trained in the order by_rank") {
  run_files const files;
  auto config = canonical_config(files, 1);
  config.execution.reduction_order = reduction_order::by_rank;
  config.checkpoint.save_folder = files.folder / "run";
  fs::path const saved = train<float>(config).checkpoint;
  config = canonical_config(files, 3);
  config.checkpoint.load_path = saved;
  auto const expected = run<float>(files, config, {}, "one");
  CHECK(run<float>(files, config, layouts[2], "four") == expected);
}

}  // namespace
}  // namespace trainer_canonical_test
