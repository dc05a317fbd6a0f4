// `loggers`: every tracker's keys, and what is refused before anything starts.
#include <string>

#include <doctest/doctest.h>

#include <mpt/config/run/loggers.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/support/files.hpp>
#include <support/checkout.hpp>
#include <support/text_cases.hpp>

namespace loggers_test {

mpt::loggers_config read(std::string const& text, mpt::config_report* to = nullptr,
                         std::string const& save_folder = {}) {
  mpt::config_report report;
  auto const document = mpt::parse_yaml(text, "f.yaml");
  auto out = mpt::read_loggers(
      mpt::config_reader(document, "", to != nullptr ? *to : report).section("loggers"), "run1",
      save_folder);
  return out;
}
std::string problem_of(std::string const& text) {
  return test::message_of([&] { static_cast<void>(read(text)); });
}

TEST_CASE("loggers: W&B's settings have Composer's names, and a run its own name") {
  CHECK(read("a: 1") == mpt::loggers_config{});
  auto const blank = read("loggers: {wandb: {}}").python_trackers.at(0);
  CHECK(blank == mpt::python_tracker_config{.name = "run1"});
  auto const full =
      read(
          "loggers: {wandb: {project: p, entity: e, group: g, name: '{run_name}-x', tags: [a, b],"
          " python: /v/bin/python, log_artifacts: false, rank_zero_only: true,"
          " init_kwargs: {id: i, mode: offline, dir: d, job_type: j, notes: n, resume: must}}}")
          .python_trackers.at(0);
  CHECK(full == mpt::python_tracker_config{.module = "wandb",
                                           .python = "/v/bin/python",
                                           .project = "p",
                                           .entity = "e",
                                           .group = "g",
                                           .name = "run1-x",
                                           .tags = {"a", "b"},
                                           .id = "i",
                                           .mode = "offline",
                                           .dir = "d",
                                           .job_type = "j",
                                           .notes = "n",
                                           .resume = "must"});
}

TEST_CASE("loggers: trackio has the keys of W&B that it knows") {
  auto const trackers = read("loggers: {wandb: , trackio: {project: p}}").python_trackers;
  REQUIRE(trackers.size() == 2);
  CHECK(trackers[1].module == "trackio");
  CHECK(trackers[1].project == "p");
  for (auto const& [text, message] : test::text_cases("mpt/config/refused.txt", "loggers"))
    CHECK(problem_of(text) == message);
}

TEST_CASE("loggers: MLflow's settings have Composer's names") {
  auto const mlflow =
      read(
          "loggers: {mlflow: {tracking_uri: 'http://h:5000', experiment_name: e, run_name: r,"
          " run_group: g, tags: {team: x, n: 1}, ignore_metrics: [time/*],"
          " ignore_hyperparameters: ['a.*'], rename_metrics: {loss: l}, flush_interval: 3}}")
          .mlflow;
  REQUIRE(mlflow);
  CHECK(*mlflow == mpt::mlflow_config{.tracking_uri = "http://h:5000",
                                      .experiment_name = "e",
                                      .run_name = "r",
                                      .run_group = "g",
                                      .tags = {{"team", "x"}, {"n", "1"}},
                                      .ignore_metrics = {"time/*"},
                                      .ignore_hyperparameters = {"a.*"},
                                      .rename_metrics = {{"loss", "l"}},
                                      .buffer_seconds = 3});
  CHECK(read("loggers: {mlflow: }").mlflow->run_name == "run1");
  CHECK(!read("loggers: {tensorboard: {}}").mlflow);
  CHECK(read("loggers: {tensorboard: {}}").tensorboard == "tensorboard_logs/run1");
  CHECK(read("loggers: {tensorboard: {log_dir: t}}").tensorboard == "t/run1");
  CHECK(read("loggers: {csv: {}}").csv == "run1/metrics.csv");
  CHECK(read("loggers: {csv: {}}", nullptr, "/saves").csv == "/saves/metrics.csv");
  CHECK(read("loggers: {csv: {filename: 'x/{run_name}.csv'}}").csv == "x/run1.csv");
}

TEST_CASE("loggers: secrets and unusable addresses are refused, and secrets are not printed") {
  for (std::string const text :
       {"wandb: {api_key: s3cret}", "wandb: {init_kwargs: {api_key: s3cret}}",
        "mlflow: {token: s3cret}", "mlflow: {password: s3cret}",
        "mlflow: {tracking_uri: 'http://u:s3cret@h'}",
        "mlflow: {tracking_uri: 'postgresql://u:s3cret@h/x'}"}) {
    auto const message = problem_of("loggers: {" + text + "}");
    CHECK_MESSAGE(test::contains(message, "set "), message);
    CHECK(!test::contains(message, "s3cret"));
  }
  for (std::string const uri : {"sqlite:///m.db", "databricks", "./mlruns"})
    CHECK(test::contains(problem_of("loggers: {mlflow: {tracking_uri: '" + uri + "'}}"),
                         "mlflow server --backend-store-uri"));
}

TEST_CASE("docs/trackers.md: its example is valid") {
  auto const page = test::read_all(test::checkout() / "docs" / "trackers.md");
  auto const begin = page.find("```yaml\n") + 8;
  auto const loggers = read(page.substr(begin, page.find("```", begin) - begin));
  CHECK(loggers.python_trackers.at(0).mode == "offline");
  CHECK(loggers.mlflow->tracking_uri == "http://tracking.example:5000");
  CHECK(loggers.csv == "runs/metrics.csv");
}

}  // namespace loggers_test
