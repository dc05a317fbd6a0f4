// Tests of the callbacks, against recorded decisions of Composer and LLM Foundry where they exist.
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/callbacks/early_stopper.hpp>
#include <mpt/callbacks/kill_loss_spike.hpp>
#include <mpt/callbacks/monitors.hpp>
#include <mpt/yaml/document.hpp>
#include <support/golden/golden.hpp>

namespace callback_test {

static_assert(mpt::callback<mpt::nan_monitor> && mpt::callback<mpt::early_stopper> &&
              mpt::callback<mpt::kill_loss_spike> && mpt::callback<mpt::optimizer_monitor>);
static_assert(!mpt::callback<int>);

nlohmann::json golden() {
  return nlohmann::json::parse(mpt::read_small_file(test::golden_folder() / "callbacks.json"));
}

mpt::callbacks_config read(std::string const& text) {
  mpt::config_report report;
  auto const root = mpt::parse_yaml(text, "f.yaml");
  std::vector<std::string> frozen_layers;
  return mpt::read_callbacks({root, "callbacks", report}, frozen_layers);
}

mpt::run_control silent() {
  return mpt::run_control([](std::string const&) {});
}

/// Replaces a callback by a new one that is restored from the first one's state as JSON text.
template <class C>
void resume(C& callback, C fresh) {
  fresh.restore(nlohmann::json::parse(std::as_const(callback).state().dump()));
  callback = fresh;
}

TEST_CASE("early_stopper: stops where Composer's does, also when resumed at every evaluation") {
  auto const rows = golden()["early_stopper"];
  CHECK(rows.size() == 24);
  for (auto const& row : rows) {
    CAPTURE(row.dump());
    nlohmann::json settings{{"monitor", row["monitor"]},
                            {"dataloader_label", "eval"},
                            {"patience", row["patience"]},
                            {"min_delta", row["min_delta"]}};
    if (!row["comp"].is_null()) settings["comp"] = row["comp"];
    auto const config = *read(nlohmann::json{{"early_stopper", settings}}.dump()).early_stopper;
    mpt::early_stopper stopper(config);
    auto run = silent();
    std::int64_t batch = 0;
    for (double const value : row["values"]) {
      batch += row["eval_every"].get<std::int64_t>();
      REQUIRE(!run.is_stopped());
      auto const monitor = row["monitor"].get<std::string>();
      stopper.evaluation_end(run,
                             {.label = "",
                              .batch = batch,
                              .epoch = batch / row["batches_per_epoch"].get<std::int64_t>(),
                              .loss = monitor == "LanguagePerplexity" ? std::log(value) : value,
                              .accuracy = value});
      resume(stopper, mpt::early_stopper(config));
    }
    CHECK(run.is_stopped());
    CHECK(batch == row["stops_at"].get<std::int64_t>());
  }
}

TEST_CASE("early_stopper: watches its evaluation set, or the training metric when configured so") {
  auto config = *read(
                     "early_stopper: {monitor: LanguageCrossEntropy, dataloader_label: eval/b, "
                     "patience: 1ba}")
                     .early_stopper;
  mpt::early_stopper other(config);
  CHECK(other.watches("b"));
  CHECK(!other.watches("a"));
  CHECK(!other.watches(""));
  config.dataloader_label = "train";
  mpt::early_stopper stopper(config);
  auto run = silent();
  for (int batch = 1; batch <= 3; ++batch) {
    CHECK(!run.is_stopped());
    stopper.evaluation_end(run, {.label = "b", .batch = 90, .loss = 9});
    stopper.batch_end(run, {.batch = batch, .loss = 2});
  }
  CHECK(run.is_stopped());
}

TEST_CASE("early_stopper: a stopped run stops again when resumed, but not with other settings") {
  auto const config = *read(
                           "early_stopper: {monitor: LanguageCrossEntropy, dataloader_label: "
                           "eval, patience: 1ba}")
                           .early_stopper;
  mpt::callback_list<mpt::early_stopper> list{mpt::early_stopper(config)};
  auto run = silent();
  for (int batch = 1; batch <= 3; ++batch)
    list.evaluation_end(run, {.label = "", .batch = batch, .loss = 2, .accuracy = 0.1});
  REQUIRE(run.is_stopped());
  auto const saved = nlohmann::json::parse(list.state().dump());
  auto const resume_with = [&](mpt::early_stopper_config const& settings) {
    mpt::callback_list<mpt::early_stopper> other{mpt::early_stopper(settings)};
    auto resumed = silent();
    other.restore(resumed, saved);
    bool const stopped_at_once = resumed.is_stopped();
    for (int batch = 4; batch <= 5; ++batch)  // a best loss of 2 would be no better than these
      other.evaluation_end(resumed, {.label = "", .batch = batch, .loss = 3, .accuracy = 0.1});
    return std::pair(stopped_at_once, resumed.is_stopped());
  };
  CHECK(resume_with(config) == std::pair(true, true));
  auto patient = config;
  patient.patience.count = 3;
  CHECK(resume_with(patient) == std::pair(false, true));  // the best is that of batch 1 still
  patient.patience.count = 10;
  CHECK(resume_with(patient) == std::pair(false, false));
  auto other = config;
  other.monitor = "TokenAccuracy";
  CHECK(resume_with(other) == std::pair(false, false));
}

TEST_CASE("early_stopper: an older checkpoint's names of the state are read") {
  auto const config = *read(
                           "early_stopper: {monitor: LanguageCrossEntropy, dataloader_label: "
                           "eval, patience: 3ba}")
                           .early_stopper;
  mpt::early_stopper stopper(config);
  auto run = silent();
  for (int batch = 1; batch <= 5; ++batch)
    stopper.evaluation_end(run, {.label = "", .batch = batch, .loss = 2, .accuracy = 0.1});
  REQUIRE(run.is_stopped());
  auto const state = std::as_const(stopper).state();
  auto old_state = state;
  for (auto const& [name, old_name] :
       {std::pair("has_best", "seen"), std::pair("settings", "of"), std::pair("reason", "why")}) {
    old_state[old_name] = state.at(name);
    old_state.erase(name);
  }
  mpt::early_stopper resumed(config);
  resumed.restore(old_state);
  CHECK(std::as_const(resumed).state() == state);
}

TEST_CASE("kill_loss_spike: the state of another window size is discarded") {
  mpt::kill_loss_spike five(*read("kill_loss_spike: {window_size: 5}").kill_loss_spike, 100);
  auto run = silent();
  for (int batch = 1; batch <= 7; ++batch) five.batch_end(run, {.batch = batch, .loss = 2});
  mpt::kill_loss_spike fifteen(*read("kill_loss_spike: {window_size: 15}").kill_loss_spike, 100);
  auto const fresh = fifteen.state();
  fifteen.restore(five.state());
  CHECK(fifteen.state() == fresh);
}

TEST_CASE("kill_loss_spike: fails where LLM Foundry's does, also when resumed at every batch") {
  auto const rows = golden()["kill_loss_spike"];
  CHECK(rows.size() == 8);
  for (auto const& row : rows) {
    CAPTURE(row["settings"].dump());
    auto settings = row["settings"];
    settings["log_only"] = false;
    auto const config = *read(nlohmann::json{{"kill_loss_spike", settings}}.dump()).kill_loss_spike;
    auto const total = std::stoll(row["max_duration"].get<std::string>());
    mpt::kill_loss_spike monitor(config, total);
    auto run = silent();
    std::optional<std::int64_t> failed;
    std::string message;
    std::int64_t batch = 0;
    for (double const loss : row["losses"]) {
      try {
        monitor.batch_end(run, {.batch = ++batch, .loss = loss});
      } catch (parallel::diverged const& error) {
        failed = batch;
        message = error.what();
      }
      resume(monitor, mpt::kill_loss_spike(config, total));
    }
    if (row["raised"].is_null()) {
      CHECK(!failed);
      continue;
    }
    CHECK(failed == row["raised"]["batch"].get<std::int64_t>());
    bool const spike = message.find("times the mean") != std::string::npos;
    CHECK(spike == (row["raised"]["kind"] == "LossSpikeError"));
  }
}

TEST_CASE("kill_loss_spike: with log_only it prints a line, and goes on checking") {
  auto const config = *read("kill_loss_spike: {window_size: 4, patience: 1, outlier_multiplier: 2}")
                           .kill_loss_spike;
  mpt::kill_loss_spike monitor(config, 1000);
  std::vector<std::string> messages;
  mpt::run_control run([&](std::string const& text) { messages.push_back(text); });
  std::int64_t batch = 0;
  for (double const loss : {1., 1., 1., 1., 1., 1., 9., 1., 9., 9.})
    monitor.batch_end(run, {.batch = ++batch, .loss = loss});
  CHECK(messages.empty());  // the 9 before have raised the mean
  for (double const loss : {1., 1., 1., 1., 9., 20.})
    monitor.batch_end(run, {.batch = ++batch, .loss = loss});
  REQUIRE(messages.size() == 1);
  CHECK(messages[0].starts_with(
      "kill_loss_spike: batch 16: the loss 20 has been 2 times the mean 3"));
  CHECK(!run.is_stopped());
}

TEST_CASE("nan_monitor: ends a run whose loss or gradient is not finite") {
  auto run = silent();
  mpt::nan_monitor{}.batch_end(run, {.batch = 1, .loss = 1, .gradient_norm = 1});
  CHECK_THROWS_WITH_AS(mpt::nan_monitor{}.batch_end(run, {.batch = 3, .loss = std::nan("")}),
                       "batch 3: the loss is not finite; lower the learning rate, resume from an "
                       "earlier checkpoint, or set on_not_finite to skip or roll_back",
                       parallel::diverged);
  CHECK_THROWS_AS(
      mpt::nan_monitor{}.batch_end(run, {.batch = 3, .loss = 1, .gradient_norm = INFINITY}),
      parallel::diverged);
}

TEST_CASE("optimizer_monitor: logs norms of every tensor and over all tensors, every few batches") {
  mpt::optimizer_monitor const monitor(3);
  auto run = silent();
  monitor.batch_begin(run, 2);
  CHECK(!run.is_measuring());
  monitor.batch_begin(run, 3);
  CHECK(run.is_measuring());
  std::vector<parallel::train::tensor_squares<double>> const tensors{{"a", 36, 4, 9, 1},
                                                                     {"b", 64, 0, 16, 0}};
  monitor.batch_end(run, {.batch = 3, .gradient_scale = 0.5, .tensors = &tensors});
  std::vector<std::pair<std::string, double>> const expected{
      {"l2_norm/grad/model.a", 3},   {"l2_norm/moment/model.a", 2}, {"l2_norm/param/model.a", 3},
      {"l2_norm/update/model.a", 1}, {"l2_norm/grad/model.b", 4},   {"l2_norm/moment/model.b", 0},
      {"l2_norm/param/model.b", 4},  {"l2_norm/update/model.b", 0}, {"l2_norm/grad/global", 5},
      {"l2_norm/moment/global", 2},  {"l2_norm/param/global", 5},   {"l2_norm/update/global", 1}};
  CHECK(run.numbers() == expected);
}

TEST_CASE("callback_list: events reach the present callbacks, and their states have their names") {
  auto const config = *read("kill_loss_spike: {window_size: 4}").kill_loss_spike;
  mpt::callback_list<mpt::nan_monitor, mpt::early_stopper, mpt::kill_loss_spike> list(
      mpt::nan_monitor{}, std::nullopt, mpt::kill_loss_spike(config, 10));
  auto run = silent();
  list.batch_end(run, {.batch = 1, .loss = 2});
  auto const state = list.state();
  CHECK(state.size() == 1);
  CHECK(state["kill_loss_spike"]["losses"] == nlohmann::json{2.0});
  list.restore(run, nlohmann::json::object());
  list.restore(run, state);
  CHECK(list.state() == state);
  CHECK_THROWS_WITH_AS(list.restore(run, {{"kill_loss_spike", {{"window", "x"}}}}),
                       "the checkpoint's state of callbacks.kill_loss_spike is damaged; use "
                       "another checkpoint",
                       parallel::error);
}

}  // namespace callback_test
