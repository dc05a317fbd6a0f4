#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "mpt/train/tiny_run.hpp"

namespace trainer_test {
namespace {

namespace fs = std::filesystem;
using namespace tiny_run;
using parallel::bf16;
using test::contains;

/// The batches whose metrics have this key.
std::vector<int> batches_with(std::vector<nlohmann::json> const& metrics, std::string const& key) {
  std::vector<int> out;
  for (auto const& record : metrics)
    if (record.contains(key)) out.push_back(record.at("time/batch").get<int>());
  return out;
}

std::vector<std::string> folders_in(fs::path const& root) {
  std::vector<std::string> out;
  for (auto const& entry : fs::directory_iterator(root))
    if (entry.is_directory() && !entry.is_symlink()) out.push_back(entry.path().filename());
  std::ranges::sort(out);
  return out;
}

TEST_CASE_TEMPLATE("trainer: a resumed run has the bits of an uninterrupted one, also in mid-epoch",
                   T, float, bf16) {
  run_files const files;
  for (int const ranks : {1, 3}) {
    CAPTURE(ranks);
    auto config = files.config(11);
    config.execution.zero_stage = 1;
    auto const name = "run" + std::to_string(ranks);
    config.checkpoint.save_folder = files.folder / (name + "calm");
    auto const uninterrupted = train<T>(config, ranks);
    config.checkpoint.save_folder = files.folder / (name + "stopped");
    config.checkpoint.autoresume = true;
    for (double const end : {1.0, 5.0, 11.0}) {
      config.run.max_duration.count = end;
      config.execution.zero_stage =
          1 - config.execution.zero_stage;  // stages have the same checkpoints
      auto const resumed = train<T>(config, ranks);
      CHECK(resumed.batches == static_cast<std::int64_t>(end));
      if (end == 11) {
        CHECK(resumed.loss == uninterrupted.loss);
        CHECK(resumed.tokens == uninterrupted.tokens);
        auto const expected = tensors_of(uninterrupted.checkpoint);
        CHECK(expected.size() == static_cast<std::size_t>(ranks));
        CHECK(tensors_of(resumed.checkpoint) == expected);
      }
    }
    // A run that is already complete trains nothing and keeps its checkpoint.
    auto const tensors = tensors_of(uninterrupted.checkpoint);
    auto const repeated = train<T>(config, ranks);
    CHECK(repeated.batches == 11);
    CHECK(repeated.seconds == 0);
    CHECK(tensors_of(repeated.checkpoint) == tensors);
  }
}

/// A data-parallel layout: ranks, ZeRO stage, and ranks per copy of the shards.
struct zero_layout {
  int ranks;
  int stage;
  std::optional<int> shards = {};
  bool reshard = true;

  void set(train_config& config) const {
    config.execution.zero_stage = stage;
    config.execution.parallelism.shard = shards;
    config.execution.reshard_after_forward = reshard;
  }
};

TEST_CASE_TEMPLATE(
    "trainer: any number of ranks and ZeRO stage resumes the checkpoint of any other", T, float,
    bf16) {
  run_files const files;
  auto config = files.config(3);
  config.data.eval_loaders = {files.held_out()};
  config.evaluation.eval_interval = {6, time_unit::batch};
  config.optimizer.scheduler.t_max = {6, time_unit::batch};
  config.data.device_train_microbatch_size = 6;  // one microbatch per rank fixes the order of sums
  config.model.resid_pdrop = 0.1;
  int number = 0;
  std::optional<double> expected_loss;
  std::optional<double> expected_evaluation;
  for (int const ranks : {1, 2, 3}) {
    std::optional<std::map<std::string, std::string>> saved;
    fs::path checkpoint;
    for (int const stage : {0, 1, 2, 3}) {
      zero_layout{ranks, stage}.set(config);
      config.checkpoint.save_folder = files.folder / std::to_string(++number);
      checkpoint = train<T>(config, ranks).checkpoint;
      auto const tensors = tensors_of(checkpoint);
      if (!saved) saved = tensors;
      CAPTURE(ranks);
      CAPTURE(stage);
      CHECK(tensors == *saved);  // the same bytes from every stage
    }
    auto next = config;
    next.checkpoint.load_path = checkpoint;
    next.run.max_duration.count = 6;
    std::map<int, std::vector<nlohmann::json>> numbers_by_ranks;
    for (auto const& target : {zero_layout{1, 0},
                               {1, 3},
                               {2, 0},
                               {2, 1},
                               {2, 2},
                               {2, 3},
                               {2, 3, 2, false},
                               {3, 0},
                               {3, 1},
                               {3, 2},
                               {3, 3},
                               {3, 2, 1},
                               {6, 3, 2},
                               {6, 2, 3}}) {
      CAPTURE(ranks);
      CAPTURE(target.ranks);
      CAPTURE(target.stage);
      target.set(next);
      auto const name = std::to_string(++number);
      next.checkpoint.save_folder = files.folder / name;
      next.output.metrics_file = files.folder / (name + ".jsonl");
      CHECK(train<T>(next, target.ranks).batches == 6);
      auto const metrics = records(next.output.metrics_file);
      REQUIRE(metrics.size() >= 4);
      std::vector<nlohmann::json> numbers;
      for (auto const& record : metrics)
        for (auto const* const key :
             {"loss/train/total", "l2_norm/grad/global", "metrics/eval/LanguageCrossEntropy"})
          if (record.contains(key)) numbers.push_back(record.at(key));
      REQUIRE(numbers.size() == 7);
      // As many ranks sum in the same order in every stage, unless there are copies of shards.
      bool const same_order = target.ranks < 6;
      if (same_order) {
        if (!numbers_by_ranks.contains(target.ranks)) numbers_by_ranks[target.ranks] = numbers;
        CHECK(numbers == numbers_by_ranks[target.ranks]);
      }
      // All layouts compute the same values up to rounding.
      double const rounding = std::is_same_v<T, float> ? 1e-4 : 0.05;
      double const third_loss = metrics[2].at("loss/train/total").get<double>();
      if (!expected_loss) expected_loss = third_loss;
      CHECK(third_loss == doctest::Approx(*expected_loss).epsilon(rounding));
      if (!expected_evaluation) expected_evaluation = numbers.back().get<double>();
      CHECK(numbers.back().get<double>() ==
            doctest::Approx(*expected_evaluation).epsilon(rounding));
    }
  }
}

TEST_CASE_TEMPLATE("trainer: the loss falls, and every batch is reported", T, float, bf16) {
  run_files const files;
  auto config = files.config(120);
  config.optimizer.scheduler.t_max = config.run.max_duration;
  config.output.metrics_file = files.folder / "metrics.jsonl";
  auto const summary = train<T>(config, 2);
  CHECK(summary.batches == 120);
  CHECK(summary.tokens == 120 * 6 * length);
  CHECK(summary.checkpoint.empty());
  CHECK(summary.tokens_per_second > 0);
  CHECK(summary.mfu > summary.mfu_causal);
  auto const metrics = records(files.folder / "metrics.jsonl");
  REQUIRE(metrics.size() == 120);
  double const first = metrics.front().at("loss/train/total").get<double>();
  CHECK(first == doctest::Approx(std::log(vocabulary)).epsilon(0.2));
  CHECK(summary.loss == metrics.back().at("loss/train/total").get<double>());
  CHECK(summary.loss < 0.5 * first);
  for (int i = 0; i < 120; ++i) {
    auto const& record = metrics[static_cast<std::size_t>(i)];
    CHECK(record.at("time/batch") == i + 1);
    CHECK(record.at("time/epoch") == i / 3);
    CHECK(record.at("time/token") == (i + 1) * 6 * length);
    CHECK(record.at("time/checkpoint_blocked") == 0);
    CHECK(record.at("time/sample") == 6 * (i + 1));
    CHECK(record.at("time/batch_in_epoch") == i % 3 + 1);
    CHECK(record.at("time/token_in_epoch") == (i % 3 + 1) * 6 * length);
    CHECK(record.at("trainer/device_train_microbatch_size") == 2);
    CHECK(record.contains("time/remaining_estimate") == (i > 0));  // unknown in the first batch
    CHECK(record.at("memory/peak_allocated_mem") > 0);
    CHECK(record.at("memory/peak_allocated_mem") <= summary.device_memory_bytes / 1e9);
  }
  CHECK(summary.batches_here == 120);
  REQUIRE(summary.device_memory_by_rank.size() == 2);
  CHECK(std::ranges::min(summary.device_memory_by_rank) > 0);
  CHECK(std::ranges::max(summary.device_memory_by_rank) == summary.device_memory_bytes);
  CHECK(summary.samples_per_second ==
        doctest::Approx(summary.tokens_per_second / length).epsilon(1e-9));
  CHECK(summary.peak_flops == 2e12);
  CHECK(summary.peak_source == "gpu_flops_available");
  CHECK(!summary.evaluation);
  CHECK(metrics[1].at("lr-DecoupledAdamW/group0").get<double>() == doctest::Approx(5e-3));
}

TEST_CASE("trainer: evaluation and saving keep their intervals, and the last batch has both") {
  run_files const files;
  auto config = files.config(8);
  config.data.eval_loaders = {files.held_out()};
  config.evaluation.eval_interval = {3, time_unit::batch};
  config.evaluation.eval_first = true;
  config.checkpoint.save_folder = files.folder / "saved";
  config.checkpoint.save_interval = {1, time_unit::epoch};
  config.output.metrics_file = files.folder / "metrics.jsonl";
  auto const summary = train<float>(config, 2);
  auto const metrics = records(files.folder / "metrics.jsonl");
  CHECK(batches_with(metrics, "metrics/eval/LanguageCrossEntropy") == std::vector{0, 3, 6, 8});
  REQUIRE(summary.evaluation);
  CHECK(summary.evaluation->batch == 8);
  CHECK(summary.evaluation->accuracy == metrics.back().at("metrics/eval/TokenAccuracy"));
  CHECK(summary.evaluation_seconds > 0);
  double evaluated = 0;  // hours of evaluation so far, including the first evaluation
  for (auto const& record : metrics) {
    if (!record.contains("time/val")) continue;
    CHECK(record.at("time/val") > 0);
    CHECK(record.at("time/val") >= evaluated);
    evaluated = record.at("time/val");
    CHECK(record.at("time/total") ==
          record.at("time/train").get<double>() + record.at("time/val").get<double>());
    CHECK(record.at("time/train") >= record.at("time/train_seconds").get<double>() / 3600);
  }
  CHECK(summary.evaluation_seconds / 3600 > evaluated);  // includes the last evaluation
  for (auto const& record : metrics)
    if (record.contains("metrics/eval/tokens"))
      CHECK(record.at("metrics/eval/tokens") == 7 * (length - 1));  // every token once
  CHECK(folders_in(files.folder / "saved") ==
        std::vector<std::string>{"ep1-ba3", "ep2-ba6", "ep2-ba8"});
  CHECK(fs::path(summary.checkpoint).filename() == "ep2-ba8");
  double blocked_seconds = 0;
  for (auto const& record : metrics) {
    if (!record.contains("time/checkpoint_blocked")) continue;  // an evaluation
    double const seconds = record.at("time/checkpoint_blocked").get<double>();
    CHECK((seconds > 0) == (record.at("time/batch") > 3));
    CHECK(seconds >= blocked_seconds);
    blocked_seconds = seconds;
  }
  // Without an interval nothing is evaluated; the oldest checkpoints are removed.
  config.evaluation.eval_interval = {0, time_unit::batch};
  config.evaluation.eval_first = false;
  config.checkpoint.save_folder = files.folder / "few";
  config.checkpoint.save_num_checkpoints_to_keep = 1;
  config.output.metrics_file = files.folder / "quiet.jsonl";
  (void)train<float>(config, 1);
  CHECK(batches_with(records(files.folder / "quiet.jsonl"), "metrics/eval/tokens").empty());
  CHECK(folders_in(files.folder / "few") == std::vector<std::string>{"ep2-ba8"});
}

TEST_CASE("trainer: load_weights_only begins a run at batch 0 with the weights of another") {
  run_files const files;
  auto config = files.config(30);
  config.checkpoint.save_folder = files.folder / "first";
  (void)train<float>(config);
  auto next = files.config(2);
  next.checkpoint.load_path = files.folder / "first";
  next.checkpoint.load_weights_only = true;
  next.run.seed = 4;  // another seed is allowed, since only weights are loaded
  next.output.metrics_file = files.folder / "metrics.jsonl";
  CHECK(train<float>(next).batches == 2);
  auto const metrics = records(files.folder / "metrics.jsonl");
  REQUIRE(metrics.size() == 2);
  CHECK(metrics[0].at("time/batch") == 1);
  CHECK(metrics[0].at("loss/train/total").get<double>() < 0.7 * std::log(vocabulary));
}

void check_layouts(run_files const& files, train_config config, std::vector<grid> const& layouts) {
  config.data.eval_loaders = {files.held_out()};
  config.evaluation.eval_interval = {3, time_unit::batch};
  config.callbacks.optimizer_monitor_interval = 2;
  auto const run = [&](grid const& layout, std::string const& name) {
    auto run_config = with_layout(config, layout);
    run_config.output.metrics_file = files.folder / name;
    (void)train<float>(run_config, layout.ranks());
    run_config.callbacks.optimizer_monitor_interval = 0;
    run_config.output.metrics_file.clear();
    (void)train<float>(run_config, layout.ranks());
    return records(files.folder / name);
  };
  auto const expected = run({}, "one.jsonl");
  REQUIRE(expected.size() == 8);
  for (std::size_t g = 0; g < layouts.size(); ++g) {
    CAPTURE(g);
    auto const metrics = run(layouts[g], std::to_string(g) + ".jsonl");
    REQUIRE(metrics.size() == expected.size());
    for (std::size_t r = 0; r < metrics.size(); ++r)
      for (auto const& entry : expected[r].items()) {
        auto const& [key, value] = entry;
        if (key.find("loss/") != 0 && key.find("metrics/") != 0 && key.find("l2_norm/") != 0 &&
            key.find("lr-") != 0)
          continue;
        // the loss does not depend on the keys' bias: Adam turns the rounding of its gradient into
        // noise
        if (key.ends_with("Wqkv.bias") || key.ends_with("k_ln.bias")) continue;
        CAPTURE(entry.key());
        REQUIRE(metrics[r].contains(key));
        CHECK(metrics[r].at(key).get<double>() ==
              doctest::Approx(value.get<double>()).epsilon(5e-4));
      }
  }
}

TEST_CASE("trainer: every layout trains and evaluates as one rank does, in the planned memory") {
  run_files const files;
  check_layouts(files, divisible_config(files, 6), grids);
}

TEST_CASE("trainer: layouts with unequal tensor slices and data shares train as one rank does") {
  run_files const files;
  check_layouts(files, indivisible_config(files, 6), uneven_grids);
}

TEST_CASE("trainer: a run that cannot be trained is refused with one clear error") {
  run_files const files;
  auto const message = [](train_config const& config, int ranks = 1) {
    return test::message_of([&] { (void)train<float>(config, ranks); });
  };
  auto config = files.config(3);
  config.checkpoint.save_folder = files.folder / "run";
  CHECK(message(config).empty());
  CHECK(contains(message(config),
                 "holds checkpoints of an earlier run; continue it with "
                 "autoresume=true, replace them with save_overwrite=true"));
  config.checkpoint.autoresume = true;
  config.run.max_duration.count = 6;
  config.run.seed = 5;
  CHECK(contains(message(config, 2), "was trained with seed = 17, this run has 5"));
  config.run.seed = 17;
  config.model.n_heads = 4;
  CHECK(contains(message(config, 2),
                 "its manifest says n_heads = 2, this run's model 4; make them equal to go on from "
                 "its weights"));
  config.checkpoint.autoresume = false;
  config.checkpoint.load_path = files.folder / "run";
  config.checkpoint.save_folder.clear();
  config.checkpoint.load_weights_only = true;
  CHECK(contains(message(config), "its manifest says n_heads = 2, this run's model 4"));

  auto large_batch = files.config(3);
  large_batch.data.global_train_batch_size = 21;
  CHECK(contains(message(large_batch),
                 "train: an epoch has 20 samples, fewer than one global batch of 21"));
  CHECK(contains(message(files.config(3), 7),
                 "global_train_batch_size 6 is less than a sequence for each of 7 ranks; use 7 or "
                 "more"));
  auto without_checkpoint = files.config(3);
  without_checkpoint.checkpoint.load_path = files.folder / "val";
  CHECK(contains(message(without_checkpoint, 2), "there is no checkpoint here"));
  auto diverging = files.config(20);
  diverging.optimizer.lr = 1e30;
  diverging.optimizer.clip = {};
  CHECK(contains(message(diverging, 2),
                 "is not finite; lower the learning rate, resume from an earlier"));
}

}  // namespace
}  // namespace trainer_test
