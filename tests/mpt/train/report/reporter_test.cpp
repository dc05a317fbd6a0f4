// The report of a batch has Composer's names and units, each with its value.
#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/train/report/reporter.hpp>
#include <parallel/support/files.hpp>
#include <support/captured_stderr.hpp>
#include <support/file_size_limit.hpp>

namespace reporter_test {

/// The record of the 13th batch, with 4 ranks, 6 rows per batch and 10 batches per epoch.
mpt::batch_record record() {
  return {.batch = 13,
          .total_batches = 20,
          .epoch = 1,
          .tokens = 1300,
          .epoch_tokens = 300,
          .loss = 2,
          .accuracy = 0.25,
          .gradient_norm = 3,
          .learning_rates = {{"DecoupledAdamW/group0", 6e-4}},
          .peak = {.peak_flops = 6000,
                   .flops_per_token = 10,
                   .causal_flops_per_token = 8,
                   .recomputed_flops_per_token = 2},
          .microbatch = 2,
          .batches_per_second = 0.5,
          .padded_tokens_per_second = 60,
          .tokens_per_second = 48,
          .trained_tokens_per_second = 24,
          .data_wait_share = 0.125,
          .saving_seconds = 4,
          .seconds = 26,
          .seconds_without_evaluation = 30,
          .evaluation_seconds = 6,
          .remaining_seconds = 7200,
          .memory_bytes = 1e9,
          .device = {{"memory/current_allocated_mem", 1.5}, {"memory/peak_allocated_mem", 2.5}}};
}

/// The lines of the metrics file after one batch, one evaluation and one set of tasks.
std::vector<nlohmann::json> lines_of(mpt::train_config config, mpt::batch_record const& batch,
                                     std::string const& label = "") {
  test::temporary_folder const folder;
  config.data.global_train_batch_size = 6;
  config.output.metrics_file = folder / "metrics.jsonl";
  config.output.progress_bar = config.output.log_to_console = false;
  mpt::training_clock const clock{.samples_per_batch = 6, .batches_per_epoch = 10};
  mpt::run_control control([](std::string const&) {});
  mpt::reporter out(config.data, config.checkpoint, config.callbacks, config.output, 4, 1);
  out.batch(batch, clock, control);
  out.evaluation(label, 13, 1, 0.5, 77);
  out.tasks({.metrics = {{"metrics/copa/0-shot/InContextLearningMultipleChoiceAccuracy", 0.5}},
             .lines = {}},
            13);
  out.finish();
  std::vector<nlohmann::json> lines;
  std::istringstream text(test::read_all(config.output.metrics_file));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// The names are those of Composer 0.33's trainer, speed_monitor, runtime_estimator, lr_monitor,
// memory_monitor and optimizer_monitor, and of LLM Foundry's metrics of a causal language model.
TEST_CASE("reporter: every name of Composer's has its value in Composer's unit") {
  struct row {
    char const* name;
    double value;
  };
  std::vector<row> const composer_names{{"time/batch", 13},
                                        {"time/epoch", 1},
                                        {"time/sample", 78},
                                        {"time/token", 1300},
                                        {"time/batch_in_epoch", 3},
                                        {"time/sample_in_epoch", 18},
                                        {"time/token_in_epoch", 300},
                                        {"time/train", 30.0 / 3600},  // hours, including saves
                                        {"time/val", 6.0 / 3600},
                                        {"time/total", 36.0 / 3600},
                                        {"time/remaining_estimate", 2},  // hours
                                        {"loss/train/total", 2},
                                        {"metrics/train/LanguageCrossEntropy", 2},
                                        {"metrics/train/LanguagePerplexity", std::exp(2.0)},
                                        {"metrics/train/TokenAccuracy", 0.25},
                                        {"l2_norm/grad/global", 3},
                                        {"trainer/device_train_microbatch_size", 2},
                                        {"lr-DecoupledAdamW/group0", 6e-4},
                                        {"throughput/batches_per_sec", 0.5},
                                        {"throughput/samples_per_sec", 3},
                                        {"throughput/tokens_per_sec", 48},
                                        {"throughput/flops_per_sec", 600},
                                        {"throughput/device/batches_per_sec", 0.125},
                                        {"throughput/device/samples_per_sec", 0.75},
                                        {"throughput/device/tokens_per_sec", 12},
                                        {"throughput/device/flops_per_sec", 150},
                                        {"throughput/device/mfu", 0.1},
                                        {"memory/current_allocated_mem", 1.5},  // GB
                                        {"memory/peak_allocated_mem", 2.5}};
  std::vector<row> const added_names{
      {"time/train_seconds", 26},      {"time/checkpoint_blocked", 4},
      {"time/data_wait_share", 0.125}, {"l2_norm/grad/before_clipping", 3},
      {"throughput/device/hfu", 0.12}, {"throughput/device/mfu_causal", 0.08}};
  auto const found = lines_of({}, record()).at(0);
  for (auto const* const table : {&composer_names, &added_names})
    for (auto const& row : *table) {
      CAPTURE(row.name);
      REQUIRE(found.contains(row.name));
      CHECK(found.at(row.name).get<double>() == doctest::Approx(row.value).epsilon(1e-12));
    }
  CHECK(found.at("time/remaining_estimate_unit") == "hours");
  CHECK(found.at("memory/peak_resident_gb") > 0.001);
  CHECK(found.size() == composer_names.size() + added_names.size() + 2);  // and nothing else
}

TEST_CASE("reporter: the journal has where training begins, and notes with their batch") {
  test::temporary_folder const folder;
  mpt::train_config config;
  config.checkpoint.save_folder = folder.path().string();
  config.output.progress_bar = config.output.log_to_console = false;
  mpt::reporter out(config.data, config.checkpoint, config.callbacks, config.output, 4, 21);
  out.note("rank 3 is slow", 25);
  out.finish();
  std::istringstream text(test::read_all(folder / mpt::journal_name));
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(text, line);) events.push_back(nlohmann::json::parse(line));
  REQUIRE(events.size() == 2);
  CHECK(events[0].at("event") == "train");
  CHECK(events[0].at("batches") == 20);
  CHECK(events[1].at("event") == "note");
  CHECK(events[1].at("batch") == 25);
  CHECK(events[1].at("text") == "rank 3 is slow");
}

TEST_CASE("reporter: times are in the units that callbacks ask for") {
  mpt::train_config config;
  config.callbacks.speed_time_unit = {"minutes", 60};
  config.callbacks.remaining_time_unit = {"days", 86400};
  auto const found = lines_of(config, record()).at(0);
  CHECK(found.at("time/train") == 0.5);
  CHECK(found.at("time/val") == 0.1);
  CHECK(found.at("time/total") == 0.6);
  CHECK(found.at("time/remaining_estimate").get<double>() == doctest::Approx(7200.0 / 86400));
  CHECK(found.at("time/remaining_estimate_unit") == "days");
}

TEST_CASE("reporter: unknown values are left out") {
  auto batch = record();
  batch.epoch_tokens = -1;
  batch.remaining_seconds = std::nullopt;
  auto const found = lines_of({}, batch).at(0);
  CHECK(!found.contains("time/token_in_epoch"));
  CHECK(!found.contains("time/remaining_estimate"));
  CHECK(!found.contains("time/remaining_estimate_unit"));
}

TEST_CASE(
    "reporter: with optimizer_monitor, l2_norm/grad/global is only that of measured batches") {
  mpt::train_config config;
  config.callbacks.optimizer_monitor_interval = 10;
  auto const found = lines_of(config, record()).at(0);
  CHECK(!found.contains("l2_norm/grad/global"));  // this batch is not measured
  CHECK(found.at("l2_norm/grad/before_clipping") == 3);
}

TEST_CASE("reporter: runs on examples report padding and trained tokens") {
  mpt::train_config config;
  config.data.train_loader.finetuning.emplace();
  auto const found = lines_of(config, record()).at(0);
  CHECK(found.at("throughput/trained_tokens_per_sec") == 24);
  CHECK(found.at("throughput/padding_share").get<double>() == doctest::Approx(0.2));
}

TEST_CASE("reporter: `finish` reports lost events, as it reports lost metrics") {
  test::temporary_folder const folder;
  mpt::train_config config;
  config.output.loggers.tensorboard = (folder / "events").string();
  config.output.progress_bar = config.output.log_to_console = false;
  mpt::reporter out(config.data, config.checkpoint, config.callbacks, config.output, 4, 1);
  {
    test::file_size_limit const one_byte(1);
    out.evaluation("", 13, 1, 0.5, 77);
  }
  CHECK_THROWS_AS(out.finish(), parallel::storage_error);
  CHECK(test::contains(test::message_of([&] { out.finish(); }), " records were lost"));
}

/// Keeps what it is told.
class noting_tracker : public mpt::tracker {
 public:
  explicit noting_tracker(std::vector<nlohmann::json>& records) : records_(records) {}
  void log(std::int64_t step, nlohmann::ordered_json const& record) override {
    records_.push_back({step, record});
  }
  [[nodiscard]] std::vector<std::string> take_notes() override { return std::exchange(notes_, {}); }
  void finish() override { end("finished"); }
  void fail() override { end("failed"); }

 private:
  void end(char const* how) {
    if (std::exchange(is_ended_, true)) return;
    records_.emplace_back(how);
    notes_.push_back("metrics wait in j");
  }

  std::vector<nlohmann::json>& records_;
  std::vector<std::string> notes_;
  bool is_ended_ = false;
};

TEST_CASE("reporter: trackers and the table get what the metrics file gets") {
  test::temporary_folder const folder;
  std::vector<nlohmann::json> records;
  std::int64_t first = 0;
  mpt::train_config config;
  config.output.metrics_file = folder / "metrics.jsonl";
  config.output.loggers.csv = folder / "metrics.csv";
  config.output.progress_bar = config.output.log_to_console = false;
  {
    mpt::reporter out(config.data, config.checkpoint, config.callbacks, config.output, 4, 7,
                      [&](std::int64_t batch) {
                        first = batch;
                        std::vector<std::unique_ptr<mpt::tracker>> trackers;
                        trackers.push_back(std::make_unique<noting_tracker>(records));
                        return trackers;
                      });
    out.evaluation("", 13, 1, 0.5, 77);
    out.tasks({.metrics = {{"metrics/copa", 0.5}}, .lines = {}}, 14);
    out.finish();
  }
  CHECK(first == 7);
  REQUIRE(records.size() == 4);
  auto const console = records[1].at(1).at("console").get<std::string>();
  CHECK(test::contains(console, "eval at 13 ba: cross entropy 1.0000, perplexity 2.72"));
  records.erase(records.begin() + 1);
  std::istringstream lines(test::read_all(config.output.metrics_file));
  for (std::size_t i = 0; i < 2; ++i) {
    std::string line;
    std::getline(lines, line);
    CHECK(records[i] == nlohmann::json{13 + i, nlohmann::json::parse(line)});
  }
  CHECK(records[2] == "finished");
  auto const table = test::read_all(folder / "metrics.csv");
  CHECK(test::contains(table, "\r\n13,1.0,"));
  CHECK(test::contains(table, "\r\n14,,,,,0.5\r\n"));
}

TEST_CASE("reporter: a row that is cut off a table is told of") {
  test::temporary_folder const folder;
  mpt::train_config config;
  config.output.loggers.csv = folder / "metrics.csv";
  test::write_all(folder / "metrics.csv", "time/batch,loss\r\n1,0.5\r\n2,0.2");
  auto const shown = test::captured_stderr(folder / "shown", [&] {
    mpt::reporter out(config.data, config.checkpoint, config.callbacks, config.output, 1, 2);
    out.finish();
  });
  CHECK(test::contains(shown, "metrics.csv: the last row had no end and was cut off: 2,0.2"));
}

TEST_CASE(
    "reporter: records that trackers could not send are reported once, also when a run fails") {
  test::temporary_folder const folder;
  for (bool const has_failed : {false, true}) {
    std::vector<nlohmann::json> records;
    auto const shown = test::captured_stderr(folder / "shown", [&] {
      try {
        mpt::reporter out({}, {}, {}, {}, 1, 1, [&](std::int64_t) {
          std::vector<std::unique_ptr<mpt::tracker>> trackers;
          trackers.push_back(std::make_unique<noting_tracker>(records));
          return trackers;
        });
        if (has_failed) throw parallel::error("it failed");
        out.finish();
      } catch (parallel::error const&) {
      }
    });
    CHECK(records == std::vector<nlohmann::json>{has_failed ? "failed" : "finished"});
    auto const note = shown.find("metrics wait in j\n");
    CHECK(note != std::string::npos);
    CHECK(shown.find("metrics wait in j", note + 1) == std::string::npos);
  }
}

TEST_CASE("reporter: an evaluation has LLM Foundry's names, with the label of its set") {
  for (std::string const label : {"", "c4"}) {
    auto const lines = lines_of({}, record(), label);
    auto const prefix = "metrics/eval/" + (label.empty() ? "" : label + "/");
    CHECK(lines.at(1).at(prefix + "LanguageCrossEntropy") == 1);
    CHECK(lines.at(1).at(prefix + "LanguagePerplexity") == std::exp(1.0));
    CHECK(lines.at(1).at(prefix + "TokenAccuracy") == 0.5);
    CHECK(lines.at(2).at("metrics/copa/0-shot/InContextLearningMultipleChoiceAccuracy") == 0.5);
  }
}

}  // namespace reporter_test
