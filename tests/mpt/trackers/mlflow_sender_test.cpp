// Requests to an MLflow server: their size, their names, and what becomes of each answer.
#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/trackers/line_protocol.hpp>
#include <mpt/trackers/mlflow_sender.hpp>
#include <parallel/support/files.hpp>

namespace mlflow_sender_test {

using mpt::trackers::http_answer;
using mpt::trackers::http_request;
using mpt::trackers::mlflow_sender;
using mpt::trackers::send_failure;
using nlohmann::json;

/// Answers as MLflow's REST documentation says; `answers` come first where there are some.
struct fake_server {
  std::vector<http_request> requests;
  std::deque<http_answer> answers;
  bool has_experiment = false;
  bool loses_creation = false;  // makes the run, but its answer does not arrive
  bool is_deleted = false;      // the run
  bool is_unknown = false;      // the run
  std::string key;              // of the run that was created

  http_answer operator()(http_request const& request) {
    requests.push_back(request);
    if (!answers.empty()) {
      auto const answer = answers.front();
      answers.pop_front();
      return answer;
    }
    if (request.url.find("get-by-name") != std::string::npos)
      return has_experiment ? http_answer{200, R"({"experiment": {"experiment_id": "3"}})"}
                            : http_answer{404, R"({"error_code": "RESOURCE_DOES_NOT_EXIST"})"};
    if (request.url.ends_with("experiments/create")) return {200, R"({"experiment_id": "3"})"};
    if (request.url.ends_with("runs/create")) {
      is_deleted = false;
      auto const body = json::parse(request.body);
      for (auto const& tag : body.at("tags"))
        if (tag.at("key") == "parallellm_run") key = tag.at("value");
      if (std::exchange(loses_creation, false)) throw mpt::trackers::no_answer("timeout");
      return {200, R"({"run": {"info": {"run_id": "r1"}}})"};
    }
    if (request.url.ends_with("runs/search")) {
      auto const body = json::parse(request.body);
      bool const is_found = body.at("experiment_ids") == json::array({"3"}) && !key.empty() &&
                            body.at("filter") == "tags.parallellm_run = '" + key + "'";
      return {200, is_found ? R"({"runs": [{"info": {"run_id": "r1"}}]})" : "{}"};
    }
    if (is_unknown && request.url.find("runs/get?") != std::string::npos)
      return {404, R"({"error_code": "RESOURCE_DOES_NOT_EXIST"})"};
    if (request.url.find("runs/get?") != std::string::npos)
      return {200, is_deleted ? R"({"run": {"info": {"lifecycle_stage": "deleted"}}})"
                              : R"({"run": {"info": {"lifecycle_stage": "active"}}})"};
    return {200, "{}"};
  }

  [[nodiscard]] std::vector<json> bodies(std::string const& endpoint) const {
    std::vector<json> found;
    for (auto const& request : requests)
      if (request.url == "http://h:1/api/2.0/mlflow/" + endpoint)
        found.push_back(json::parse(request.body));
    return found;
  }
};

mpt::mlflow_config const config{.tracking_uri = "http://h:1/",
                                .experiment_name = "a b/\u00fc",
                                .run_name = "r",
                                .tags = {{"team", "x"}},
                                .ignore_metrics = {"time/*"},
                                .ignore_hyperparameters = {"variables.*"},
                                .rename_metrics = {{"old", "new"}}};

std::string init(bool is_resumed = false, std::vector<mpt::written_key> const& settings = {}) {
  return mpt::trackers::init_line(config, {.key = "k", .is_resumed = is_resumed}, settings, 5) +
         "\n";
}
std::string batch(std::int64_t step, nlohmann::ordered_json const& record) {
  return mpt::trackers::log_line(step, 1000 + step, record) + "\n";
}

struct sending {
  explicit sending(fake_server& server)
      : sender([&server](http_request const& request, auto const&) { return server(request); },
               folder / "state.json", std::chrono::milliseconds(0)) {}

  /// Sends all of `lines`; returns the bytes that each call took.
  std::vector<std::size_t> send_all(std::string_view lines) {
    std::vector<std::size_t> steps;
    while (!lines.empty()) {
      steps.push_back(sender.send(lines, [] { return false; }));
      REQUIRE(steps.back() > 0);
      lines.remove_prefix(steps.back());
    }
    return steps;
  }
  send_failure::remedy failure_of(std::string const& lines) {
    try {
      send_all(lines);
    } catch (send_failure const& failure) {
      message = failure.what();
      return failure.next();
    }
    FAIL("nothing failed");
    return send_failure::remedy::wait;
  }

  test::temporary_folder folder;
  mlflow_sender sender;
  std::string message;
};

TEST_CASE("MLflow: a list is split by its items and by its bytes, in order") {
  std::vector<json> items;
  for (int i = 0; i < 250; ++i) items.emplace_back(i);
  auto const lists = mpt::trackers::split_list(items, 100, 1000);
  REQUIRE(lists.size() == 3);
  CHECK(lists[0].size() == 100);
  CHECK(lists[2].size() == 50);
  CHECK(lists[2].front() == 200);
  std::vector<json> const texts{std::string(40, 'a'), std::string(40, 'b'), std::string(500, 'c')};
  auto const by_bytes = mpt::trackers::split_list(texts, 100, 90);
  REQUIRE(by_bytes.size() == 2);
  CHECK(by_bytes[0].size() == 2);
  CHECK(by_bytes[1] == json{std::string(500, 'c')});
  CHECK(mpt::trackers::split_list({}, 100, 90).empty());
}

TEST_CASE("MLflow: names are changed to what its server accepts") {
  using mpt::trackers::mlflow_name;
  CHECK(mlflow_name("metrics/eval/c4/TokenAccuracy") == "metrics/eval/c4/TokenAccuracy");
  CHECK(mlflow_name("lr-DecoupledAdamW/group0") == "lr-DecoupledAdamW/group0");
  CHECK(mlflow_name("a (b):c\u00fc") == "a _b__c__");
  CHECK(mlflow_name("/a//b/../c/") == "_/a/_/b/_/c/_");
  CHECK(mlflow_name("..") == "_");
  CHECK(mlflow_name("") == "_");
  CHECK(mlflow_name(std::string(300, 'a')).size() == 250);
}

TEST_CASE("MLflow: names that would become one name stay apart") {
  mpt::trackers::mlflow_names names(16);
  std::vector<std::pair<std::string, std::string>> const rows{
      {"mirrors.a+b", "mirrors.a_b"},
      {"mirrors.a@b", "mirrors.a_b_2"},
      {"mirrors.a_b", "mirrors.a_b_3"},
      {"mirrors.a+b", "mirrors.a_b"},
      {"a", "a"},
      {"b_2", "b_2"},
      {"b+2", "b_2_2"},
      {"a long name of one", "a long name of o"},
      {"a long name of old", "a long name of_2"}};
  for (auto const& [name, expected] : rows) CHECK(names.find(name) == expected);

  fake_server server;
  sending sent(server);
  sent.send_all(init(false, {{"mirrors.a+b", "/x"}, {"mirrors.a@b", "/y"}}) +
                batch(1, {{"a(b", 1}, {"a)b", 2}, {"old", 3}, {"new", 4}}) +
                batch(2, {{"a)b", 5}}));
  auto const batches = server.bodies("runs/log-batch");
  REQUIRE(batches.size() == 2);
  CHECK(batches[0].at("params") == json{{{"key", "mirrors.a_b"}, {"value", "/x"}},
                                        {{"key", "mirrors.a_b_2"}, {"value", "/y"}}});
  std::vector<std::string> metrics;
  for (auto const& metric : batches[1].at("metrics")) metrics.push_back(metric.at("key"));
  CHECK(metrics == std::vector<std::string>{"a_b", "a_b_2", "new", "new", "a_b_2"});
}

TEST_CASE("MLflow: a run is begun with its tags and parameters, followed and ended") {
  fake_server server;
  sending sent(server);
  std::vector<mpt::written_key> settings{{"variables.a", "1"}, {"long", std::string(7000, 'x')}};
  for (int i = 0; i < 150; ++i) settings.push_back({"model.a" + std::to_string(i), "v"});
  sent.send_all(init(false, settings) +
                batch(1, {{"old", 2.5}, {"time/batch", 1}, {"text", "no number"}}) +
                mpt::trackers::finish_line(mpt::trackers::run_end::finished, 99) + "\n");
  CHECK(server.requests[0].url ==
        "http://h:1/api/2.0/mlflow/experiments/get-by-name?experiment_name=a%20b%2F%C3%BC");
  CHECK(server.bodies("experiments/create") == std::vector<json>{{{"name", "a b/\u00fc"}}});
  auto const run = server.bodies("runs/create").at(0);
  CHECK(run.at("experiment_id") == "3");
  CHECK(run.at("run_name") == "r");
  CHECK(run.at("start_time") == 5);
  CHECK(run.at("tags").back() == json{{"key", "team"}, {"value", "x"}});
  auto const batches = server.bodies("runs/log-batch");
  REQUIRE(batches.size() == 3);
  CHECK(batches[0].at("params").size() == 100);
  CHECK(batches[1].at("params").size() == 51);
  std::size_t longest = 0;
  for (auto const& list : {batches[0], batches[1]})
    for (auto const& param : list.at("params")) {
      CHECK(param.at("key") != "variables.a");
      longest = std::max(longest, param.at("value").get<std::string>().size());
    }
  CHECK(longest == 6000);
  CHECK(batches[2] ==
        json{{"run_id", "r1"},
             {"metrics", {{{"key", "new"}, {"value", 2.5}, {"timestamp", 1001}, {"step", 1}}}}});
  CHECK(server.bodies("runs/update") ==
        std::vector<json>{{{"run_id", "r1"}, {"status", "FINISHED"}, {"end_time", 99}}});
  CHECK(sent.sender.take_notes() == std::vector<std::string>{"run r1 at http://h:1"});
}

TEST_CASE("MLflow: a request holds at most 1000 metrics, whatever the lines have") {
  fake_server server;
  sending sent(server);
  std::string lines = init();
  for (int step = 1; step <= 70; ++step) {
    nlohmann::ordered_json record;
    for (int i = 0; i < 45; ++i) record["m" + std::to_string(i)] = step * 0.1 + i;
    lines += batch(step, record);
  }
  nlohmann::ordered_json wide_record;
  for (int i = 0; i < 2500; ++i) wide_record["l2_norm/grad/" + std::to_string(i)] = i;
  sent.send_all(lines + batch(71, wide_record));
  std::size_t metrics = 0;
  std::vector<std::size_t> sizes;
  for (auto const& body : server.bodies("runs/log-batch")) {
    sizes.push_back(body.at("metrics").size());
    metrics += sizes.back();
    CHECK(body.dump().size() < 1'000'000);
  }
  CHECK(metrics == 70 * 45 + 2500);
  CHECK(*std::max_element(sizes.begin(), sizes.end()) == 1000);
  CHECK(sizes.size() == 7);  // 22 lines of 45 fit, then one of 2500 takes three
}

TEST_CASE("MLflow: a resumed run goes on in the server's run, from where it was sent") {
  test::temporary_folder const folder;
  fake_server server;
  auto const client = [&server](http_request const& request, auto const&) {
    return server(request);
  };
  {
    mlflow_sender first(client, folder / "state.json", std::chrono::milliseconds(0));
    first.keep_position(first.send(init(false, {{"a", "1"}}), [] { return false; }));
  }
  mlflow_sender second(client, folder / "state.json", std::chrono::milliseconds(0));
  CHECK(second.kept_position() == init(false, {{"a", "1"}}).size());
  static_cast<void>(second.send(init(true, {{"a", "2"}}), [] { return false; }));
  CHECK(server.bodies("runs/create").size() == 1);
  CHECK(server.bodies("runs/log-batch").size() == 1);  // parameters cannot change
  CHECK(server.bodies("runs/update").back() == json{{"run_id", "r1"}, {"status", "RUNNING"}});
}

TEST_CASE("MLflow: a run that was created without an answer is found and not created again") {
  fake_server server;
  server.loses_creation = true;
  sending sent(server);
  auto const lines = init(false, {{"a", "1"}}) + batch(1, {{"b", 1}});
  CHECK(sent.failure_of(lines) == send_failure::remedy::wait);
  sent.send_all(lines);
  CHECK(server.bodies("runs/create").size() == 1);
  CHECK(server.bodies("runs/log-batch").size() == 2);
  CHECK(server.bodies("runs/log-batch").back().at("run_id") == "r1");
}

TEST_CASE("MLflow: a run that was deleted at the server begins again, with all lines") {
  fake_server server;
  sending sent(server);
  sent.send_all(init(false, {{"a", "1"}}) + batch(1, {{"b", 1}}));
  server.is_deleted = true;
  server.answers = {{400, R"({"message": "The run r1 must be in the 'active' state"})"}};
  CHECK(sent.failure_of(batch(2, {{"b", 2}})) == send_failure::remedy::restart);
  CHECK(sent.message == "run r1 was deleted at http://h:1");
  CHECK(sent.sender.kept_position() == 0);
  server.key.clear();
  sent.send_all(init(true, {{"a", "2"}}) + batch(1, {{"b", 1}}));
  CHECK(server.bodies("runs/create").size() == 2);
  CHECK(server.bodies("runs/log-batch").at(3).contains("params"));  // a new run lacks them

  server.answers = {{400, R"({"message": "no such metric"})"}};  // of a run that is there
  CHECK(sent.failure_of(batch(2, {{"b", 2}})) == send_failure::remedy::give_up);
  CHECK(test::contains(sent.message, "no such metric"));
  server.is_deleted = true;  // seen when a resumed run begins
  CHECK(sent.failure_of(init(true)) == send_failure::remedy::restart);
}

TEST_CASE("MLflow: a run that the server does not know is not said to be deleted") {
  fake_server server;
  sending sent(server);
  sent.send_all(init());
  server.is_unknown = true;
  CHECK(sent.failure_of(init(true)) == send_failure::remedy::restart);
  CHECK(sent.message == "http://h:1 has no run r1");
}

TEST_CASE("MLflow: a run ends as finished, failed or killed") {
  using mpt::trackers::run_end;
  for (auto const& [end, status] : {std::pair{run_end::finished, "FINISHED"},
                                    {run_end::failed, "FAILED"},
                                    {run_end::killed, "KILLED"}}) {
    fake_server server;
    sending sent(server);
    sent.send_all(init() + mpt::trackers::finish_line(end, 9) + "\n");
    CHECK(server.bodies("runs/update").back().at("status") == status);
  }
}

TEST_CASE("MLflow: a journal that is continued is sent again from the beginning of the run") {
  test::temporary_folder const folder;
  fake_server server;
  auto const client = [&server](http_request const& request, auto const&) {
    return server(request);
  };
  test::write_all(folder / "state.json", R"({"run_id": "r7", "sent_bytes": 10})");
  mlflow_sender sender(client, folder / "state.json", std::chrono::milliseconds(0));
  sender.adopt(init());
  static_cast<void>(sender.send(batch(1, {{"a", 1}}), [] { return false; }));
  CHECK(server.bodies("runs/log-batch").at(0).at("run_id") == "r7");
  CHECK(server.bodies("runs/create").empty());
}

TEST_CASE("MLflow: what a server answers says whether to try again") {
  struct row {
    http_answer answer;
    send_failure::remedy next;
    char const* message;
  };
  using remedy = send_failure::remedy;
  for (auto const& row : std::vector<row>{
           {{503, ""}, remedy::wait, "http://h:1 answers with status 503"},
           {{429, ""}, remedy::wait, "status 429"},
           {{401, ""}, remedy::give_up, "refuses the credentials (status 401); set $MLFLOW_"},
           {{403, "secret"}, remedy::give_up, "refuses the credentials (status 403); set"},
           {{403, "Invalid Host header - possible DNS rebinding attack detected\n"},
            remedy::give_up,
            "http://h:1 refuses experiments/get-by-name?experiment_name=a%20b%2F%C3%BC (status "
            "403): Invalid Host header - possible DNS rebinding attack detected; start it with"},
           {{400, "no such API"}, remedy::give_up, "(status 400): no such API"},
           {{400, "<html>no such page</html>"}, remedy::give_up, "(status 400)"},
           {{302, ""}, remedy::give_up, "give the address that it redirects to"},
           {{200, "<html>"}, remedy::give_up, "is it an MLflow server?"},
           {{200, "{}"}, remedy::give_up, "lacks a value"},
           {{400, R"({"message": "bad\u001b[31m run"})"},
            remedy::give_up,
            "(status 400): bad?[31m run"}}) {
    fake_server server;
    server.answers = {row.answer};
    sending sent(server);
    CHECK(static_cast<int>(sent.failure_of(init())) == static_cast<int>(row.next));
    CHECK_MESSAGE(test::contains(sent.message, row.message), sent.message);
    CHECK(!test::contains(sent.message, "secret"));
  }
}

TEST_CASE("MLflow: no answer is a reason to wait, a broken journal one to give up") {
  test::temporary_folder const folder;
  mlflow_sender sender(
      [](http_request const&, auto const&) -> http_answer {
        throw mpt::trackers::no_answer("refused");
      },
      folder / "state.json", std::chrono::milliseconds(0));
  try {
    static_cast<void>(sender.send(init(), [] { return false; }));
    FAIL("no failure");
  } catch (send_failure const& failure) {
    CHECK(failure.next() == send_failure::remedy::wait);
    CHECK(std::string(failure.what()) == "http://h:1 does not answer (refused)");
  }
  fake_server server;
  for (std::string const line :
       {"{", "[]", R"({"type": 3})", R"({"type": "log"})", R"({"type": "init"})"}) {
    sending sent(server);
    CHECK(sent.failure_of(line + "\n") == send_failure::remedy::give_up);
  }
  auto other = json::parse(init());
  other["settings"]["tracking_uri"] = "file:///etc/passwd";
  sending sent(server);
  CHECK(sent.failure_of(other.dump() + "\n") == send_failure::remedy::give_up);
}

}  // namespace mlflow_sender_test
