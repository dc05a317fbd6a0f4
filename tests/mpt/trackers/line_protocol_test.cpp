// The lines that trackers and journals read.
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/trackers/line_protocol.hpp>
#include <mpt/yaml/document.hpp>

namespace line_protocol_test {

using nlohmann::json;
namespace trackers = mpt::trackers;

TEST_CASE("line protocol: a batch has numbers and texts apart, and every number survives") {
  nlohmann::ordered_json record{{"time/batch", 7},
                                {"loss", 0.1},
                                {"tiny", 4.9e-324},
                                {"time/remaining_estimate_unit", "hours"}};
  record["generations/0"] = "a\n\"b\" \u2192 c";
  record["no_number"] = std::numeric_limits<double>::quiet_NaN();
  record["above"] = std::numeric_limits<double>::infinity();
  record["below"] = -std::numeric_limits<double>::infinity();
  auto const text = trackers::log_line(7, 1234567890123, record);
  CHECK(text.find('\n') == std::string::npos);
  auto const line = json::parse(text);
  CHECK(line.at("type") == "log");
  CHECK(line.at("step") == 7);
  CHECK(line.at("time") == 1234567890123);
  CHECK(line.at("values") == json{{"time/batch", 7},
                                  {"loss", 0.1},
                                  {"tiny", 4.9e-324},
                                  {"no_number", "NaN"},
                                  {"above", "Infinity"},
                                  {"below", "-Infinity"}});
  CHECK(line.at("values").at("time/batch").is_number_integer());
  CHECK(line.at("texts") ==
        json{{"time/remaining_estimate_unit", "hours"}, {"generations/0", "a\n\"b\" \u2192 c"}});
}

TEST_CASE("line protocol: text that is not UTF-8 becomes a line all the same") {
  auto const line = json::parse(trackers::log_line(1, 0,
                                                   {{"text",
                                                     "a\xff"
                                                     "b"}}));
  CHECK(line.at("texts").at("text") ==
        "a\xEF\xBF\xBD"
        "b");
}

TEST_CASE("line protocol: W&B's init line has what is written, and the configuration with types") {
  mpt::python_tracker_config const tracker{
      .project = "p", .name = "run 1", .tags = {"a", "b"}, .mode = "offline"};
  auto const line = json::parse(trackers::init_line(
      tracker, {.key = "abc", .is_resumed = true},
      mpt::written_keys(mpt::parse_yaml("seed: 17\noptimizer: {lr: 1e-3, betas: [0.9, 1, true]}\n"
                                        "autoresume: true\nversion: '17'\nnames: [a, '2', 'b, c']\n"
                                        "none: []\n",
                                        "f.yaml"))));
  CHECK(line.at("type") == "init");
  CHECK(line.at("protocol") == 1);
  CHECK(line.at("client") == "wandb");
  CHECK(line.at("run") == "abc");
  CHECK(line.at("resumed") == true);
  CHECK(line.at("settings") ==
        json{{"project", "p"}, {"name", "run 1"}, {"tags", {"a", "b"}}, {"mode", "offline"}});
  CHECK(line.at("config") == json{{"seed", 17},
                                  {"optimizer.lr", 1e-3},
                                  {"optimizer.betas", {0.9, 1, true}},
                                  {"autoresume", true},
                                  {"version", "17"},
                                  {"names", {"a", "2", "b, c"}},
                                  {"none", json::array()}});
}

TEST_CASE("line protocol: MLflow's init line has texts alone, and the group as a tag") {
  mpt::mlflow_config const tracker{.tracking_uri = "http://h:1",
                                   .experiment_name = "e",
                                   .run_name = "r",
                                   .run_group = "g",
                                   .tags = {{"team", "x"}},
                                   .ignore_metrics = {"time/*"}};
  auto const line = json::parse(trackers::init_line(tracker, {.key = "abc"}, {{"seed", "17"}}, 5));
  CHECK(line.at("client") == "mlflow");
  CHECK(line.at("resumed") == false);
  CHECK(line.at("time") == 5);
  CHECK(line.at("settings").at("tags") == json{{"team", "x"}, {"run_group", "g"}});
  CHECK(line.at("settings").at("ignore_metrics") == json{"time/*"});
  CHECK(line.at("config") == json{{"seed", "17"}});
}

TEST_CASE("line protocol: a map without keys is no setting, a text of that spelling is one") {
  std::vector<mpt::written_key> const settings{{"callbacks", "{}"}, {"note", "{}", true}};
  CHECK(json::parse(trackers::init_line(mpt::mlflow_config{}, {}, settings, 5)).at("config") ==
        json{{"note", "{}"}});
  CHECK(json::parse(trackers::init_line(mpt::python_tracker_config{}, {}, settings)).at("config") ==
        json{{"note", "{}"}});
}

TEST_CASE("line protocol: the last line tells how the run ended") {
  using trackers::run_end;
  CHECK(json::parse(trackers::finish_line(run_end::finished, 9)) ==
        json{{"type", "finish"}, {"status", "finished"}, {"time", 9}});
  CHECK(json::parse(trackers::finish_line(run_end::failed, 9)).at("status") == "failed");
  CHECK(json::parse(trackers::finish_line(run_end::killed, 9)).at("status") == "killed");
}

}  // namespace line_protocol_test
