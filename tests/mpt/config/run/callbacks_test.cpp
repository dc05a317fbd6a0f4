// Tests of the configuration of callbacks and loggers.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/read_train.hpp>
#include <mpt/config/run/callbacks.hpp>
#include <mpt/config/run/optimizer.hpp>
#include <mpt/config/run/read_system.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/core/file.hpp>
#include <parallel/support/files.hpp>
#include <support/checkout.hpp>

#include "mpt/config/refused_settings.hpp"

namespace callbacks_test {

mpt::callbacks_config read(std::string const& text, mpt::config_report& report,
                           std::vector<std::string>* frozen_layers = nullptr) {
  auto const root = mpt::parse_yaml(text, "f.yaml");
  std::vector<std::string> frozen;
  return mpt::read_callbacks({root, "callbacks", report},
                             frozen_layers != nullptr ? *frozen_layers : frozen);
}

mpt::callbacks_config read(std::string const& text) {
  mpt::config_report report;
  return read(text, report);
}

std::string problem(std::string const& text) {
  return test::message_of([&] { static_cast<void>(read(text)); });
}

TEST_CASE(
    "callbacks: an absent key means no callback, absent settings have LLM Foundry's defaults") {
  auto const none = read("{}");
  CHECK(!none.early_stopper);
  CHECK(!none.kill_loss_spike);
  CHECK(!none.generate);
  CHECK(none.optimizer_monitor_interval == 0);
  CHECK(none.speed_window == 100);
  CHECK(none.speed_time_unit.name == "hours");
  CHECK(none.remaining_time_unit.seconds == 3600);
  CHECK(none.remaining_skip_batches == 1);
  auto const blank_settings = read(
      "{early_stopper: {monitor: LanguageCrossEntropy, dataloader_label: eval}, kill_loss_spike: "
      "{}, optimizer_monitor: {}, generate_callback: {prompts: [a], interval: 2}}");
  CHECK(!blank_settings.early_stopper->greater_is_better);
  CHECK(mpt::to_string(blank_settings.early_stopper->patience) == "1ep");
  CHECK(blank_settings.kill_loss_spike->log_only);
  CHECK(!blank_settings.kill_loss_spike->window_size);
  CHECK(blank_settings.optimizer_monitor_interval == 10);
  CHECK(mpt::to_string(blank_settings.generate->interval) == "2ep");
  auto const blank = read("kill_loss_spike:\noptimizer_monitor:\n");  // Composer's YAMLs have such
  CHECK(blank.kill_loss_spike);
  CHECK(blank.optimizer_monitor_interval == 10);
}

TEST_CASE("generate_callback: do_sample: false is greedy at any temperature") {
  mpt::config_report report;
  auto const c = read(
      "generate_callback: {prompts: [a], interval: 1, do_sample: false, temperature: 5}", report);
  CHECK(c.generate->temperature == 0);
  CHECK(report.ignored.size() == 1);
}

TEST_CASE("callbacks and loggers: every written setting is read") {
  mpt::config_report report;
  std::vector<std::string> frozen;
  auto const c = read(
      "{speed_monitor: {window_size: 10, gpu_flops_available: 1e12, time_unit: minutes}, "
      "runtime_estimator: {skip_batches: 3, time_unit: days}, early_stopper: {monitor: "
      "TokenAccuracy, dataloader_label: c4, comp: lt, min_delta: -0.5, patience: 30ba}, "
      "kill_loss_spike: {log_only: false, window_size: 20, patience: 2, outlier_multiplier: 3, "
      "loss_cap: 7}, generate_callback: {prompts: [x y, z], interval: 5ba, do_sample: true, "
      "top_p: 0.5, max_new_tokens: 3, use_cache: true}, optimizer_monitor: {batch_log_interval: "
      "4}, layer_freezing: {layer_names: [a, b]}, lr_monitor: {}}",
      report, &frozen);
  CHECK(c.speed_window == 10);
  CHECK(c.gpu_flops_available == 1e12);
  CHECK(c.speed_time_unit.name == "minutes");
  CHECK(c.speed_time_unit.seconds == 60);
  CHECK(c.remaining_skip_batches == 3);
  CHECK(c.remaining_time_unit.name == "days");
  CHECK(c.remaining_time_unit.seconds == 86400);
  CHECK(!c.early_stopper->greater_is_better);
  CHECK(c.early_stopper->min_delta == 0.5);
  CHECK(mpt::to_string(c.early_stopper->patience) == "30ba");
  CHECK(!c.kill_loss_spike->log_only);
  CHECK(c.kill_loss_spike->window_size == 20);
  CHECK(c.kill_loss_spike->loss_cap == 7);
  CHECK(c.generate->prompts == std::vector<std::string>{"x y", "z"});
  CHECK(c.generate->temperature == 1);
  CHECK(c.generate->top_k == 50);
  CHECK(c.generate->top_p == 0.5);
  CHECK(c.optimizer_monitor_interval == 4);
  CHECK(frozen == std::vector<std::string>{"a", "b"});
  CHECK(report.ignored.size() == 2);  // use_cache, lr_monitor
}

TEST_CASE("callbacks: each invalid setting gives one message") {
  for (auto const& [text, message] : test::refused_settings("callbacks"))
    CHECK(problem(text) == message);
}

/// The examples of a document: the text between "```yaml" and "```".
std::vector<std::string> examples(std::string const& text) {
  std::vector<std::string> out;
  std::string const fence = "```";
  for (auto position = text.find(fence + "yaml\n"); position != std::string::npos;
       position = text.find(fence + "yaml\n", position)) {
    position += fence.size() + 5;
    auto const end = text.find(fence, position);
    out.push_back(text.substr(position, end - position));
    position = end;
  }
  return out;
}

TEST_CASE("docs/training.md: every YAML example is valid and no key of it is ignored") {
  auto const found =
      examples(parallel::read_text_file(test::checkout() / "docs" / "training.md", 1 << 20));
  REQUIRE(found.size() == 6);
  mpt::config_report report;
  std::vector<std::string> frozen;
  auto const first = mpt::parse_yaml(found[0], "training.md");
  auto const c =
      mpt::read_callbacks(mpt::config_reader(first, "", report).section("callbacks"), frozen);
  CHECK(c.speed_window == 100);
  CHECK(c.optimizer_monitor_interval == 10);
  CHECK(mpt::to_string(c.early_stopper->patience) == "3ep");
  CHECK(c.early_stopper->min_delta == 0.01);
  CHECK(!c.kill_loss_spike->log_only);
  CHECK(c.kill_loss_spike->loss_cap == 10);
  CHECK(c.generate->prompts == std::vector<std::string>{"Once upon a time", "The answer is"});
  CHECK(mpt::to_string(c.generate->interval) == "500ba");
  CHECK(c.generate->max_new_tokens == 40);
  auto const muon = mpt::parse_yaml(found[1], "training.md");
  auto const o = mpt::read_optimizer(mpt::config_reader(muon, "", report).section("optimizer"));
  CHECK(o.muon->learning_rate == 0.02);
  CHECK(o.lr == 6e-4);
  auto const second = mpt::parse_yaml(found[2], "training.md");
  CHECK(mpt::read_loggers(mpt::config_reader(second, "", report).section("loggers"), "first")
            .tensorboard == "runs/tensorboard/first");
  auto const saves = mpt::parse_yaml(found[3], "training.md");
  mpt::config_reader saves_reader(saves, "", report);
  mpt::checkpoint_config checkpoint;
  mpt::detail::read_checkpoint(saves_reader, "first", checkpoint);
  CHECK(checkpoint.local_save_folder == "/local/scratch/first");
  CHECK(mpt::to_string(checkpoint.local_save_interval) == "50ba");
  CHECK(mpt::to_string(checkpoint.save_interval) == "1000ba");
  mpt::run_config run;
  auto const spikes = mpt::parse_yaml(found[4], "training.md");
  mpt::config_reader spikes_reader(spikes, "", report);
  mpt::detail::read_spike_check(spikes_reader, run);
  CHECK(run.spike_check->on_spike == mpt::bad_batch_policy::skip);
  CHECK(run.spike_check->deviations == 6);
  CHECK(run.spike_check->window == 128);
  auto const checks = mpt::parse_yaml(found[5], "training.md");
  mpt::config_reader checks_reader(checks, "", report);
  mpt::detail::read_corruption_check(checks_reader, run);
  CHECK(mpt::to_string(run.corruption_check.interval) == "100ba");
  CHECK(run.corruption_check.on_transient == mpt::transient_policy::repeat);
  CHECK(report.ignored.empty());
}

}  // namespace callbacks_test
