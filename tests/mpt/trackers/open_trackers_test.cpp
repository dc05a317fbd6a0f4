// What trackers a configuration opens, what they need, and what becomes of a run's journal.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/trackers/open_trackers.hpp>
#include <parallel/support/files.hpp>
#include <support/file_size_limit.hpp>

namespace open_trackers_test {

namespace trackers = mpt::trackers;
using trackers::http_answer;
using trackers::http_request;

/// A server that answers to everything, or to nothing.
struct server_double {
  trackers::http_client client() {
    return [this](http_request const& request, auto const&) -> http_answer {
      std::scoped_lock const guard(lock);
      if (is_away) throw trackers::no_answer("refused");
      requests.push_back(request.url.substr(request.url.rfind("mlflow/")) + request.body);
      return {200, R"({"experiment": {"experiment_id": "3"}, "run": {"info": {"run_id": "r1"}}})"};
    };
  }
  bool has_request(std::string const& text) {
    std::scoped_lock const guard(lock);
    for (auto const& request : requests)
      if (test::contains(request, text)) return true;
    return false;
  }

  /// Forgets the requests with that text.
  void forget(std::string const& text) {
    std::scoped_lock const guard(lock);
    std::erase_if(requests, [&](auto const& request) { return test::contains(request, text); });
  }

  std::mutex lock;
  bool is_away = false;
  std::vector<std::string> requests;
};

mpt::train_config config_of(std::filesystem::path const& folder) {
  mpt::train_config config;
  config.run.name = "test";
  config.checkpoint.save_folder = folder;
  config.output.loggers.mlflow = mpt::mlflow_config{
      .tracking_uri = "http://h:1", .experiment_name = "e", .run_name = "r", .buffer_seconds = 0};
  return config;
}

std::vector<std::filesystem::path> journals(std::filesystem::path const& folder) {
  std::vector<std::filesystem::path> found;
  for (auto const& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".jsonl") found.push_back(entry.path());
  return found;
}

TEST_CASE("trackers: missing requirements are named before a run begins") {
  mpt::loggers_config loggers;
  loggers.mlflow.emplace();
  auto const problem_of = [&](trackers::http_client const& client) {
    return test::message_of([&] { static_cast<void>(trackers::checked_loggers(loggers, client)); });
  };
  server_double server;
  CHECK(test::contains(problem_of({}), "apt-get install libcurl4-openssl-dev"));
  ::unsetenv("MLFLOW_TRACKING_URI");
  CHECK(test::contains(problem_of(server.client()),
                       "neither tracking_uri nor $MLFLOW_TRACKING_URI names a server"));
  ::setenv("MLFLOW_TRACKING_URI", "http://me:secret@h:1", 1);
  CHECK(test::contains(problem_of(server.client()), "without a name or password"));
  CHECK(!test::contains(problem_of(server.client()), "secret"));
  ::setenv("MLFLOW_TRACKING_URI", "https://h:1", 1);
  auto const complete = trackers::checked_loggers(loggers, server.client());
  CHECK(complete.mlflow->tracking_uri == "https://h:1");
  CHECK(complete.mlflow->experiment_name == "my-mlflow-experiment");
  ::unsetenv("MLFLOW_TRACKING_URI");
  loggers.mlflow.reset();
  loggers.python_trackers.push_back({.python = "/no/such/python3"});
  CHECK(
      test::contains(problem_of({}), "loggers.wandb: cannot start /no/such/python3: No such file"));
  CHECK(test::contains(problem_of({}), "python3 -m pip install wandb"));
  loggers.python_trackers[0].python = "false";
  CHECK(test::contains(problem_of({}),
                       "loggers.wandb: false ended with status 1; it must be Python"));
}

TEST_CASE("trackers: a run goes to its server and leaves no journal") {
  test::temporary_folder const folder;
  server_double server;
  auto const config = config_of(folder.path());
  auto const open = trackers::make_tracker_opener(config.run, config.checkpoint,
                                                  config.output.loggers, server.client());
  auto opened = open(1);
  REQUIRE(opened.size() == 1);
  opened[0]->log(1, {{"loss", 2.5}});
  opened[0]->finish();
  CHECK(server.has_request("runs/create"));
  CHECK(server.has_request(R"("key":"loss")"));
  CHECK(server.has_request(R"("status":"FINISHED")"));
  CHECK(journals(folder / "trackers").empty());
  CHECK(opened[0]->take_notes() == std::vector<std::string>{"mlflow: run r1 at http://h:1"});
}

TEST_CASE(
    "trackers: records that a dead server missed are sent by the resumed run, or by `track`") {
  test::temporary_folder const folder;
  server_double server;
  server.is_away = true;
  auto const config = config_of(folder.path());
  auto const open = trackers::make_tracker_opener(config.run, config.checkpoint,
                                                  config.output.loggers, server.client());
  {
    auto opened = open(1);
    opened[0]->log(1, {{"first", 1}});
  }
  REQUIRE(journals(folder / "trackers").size() == 1);
  server.is_away = false;
  {
    auto opened = open(2);  // resumed
    opened[0]->log(2, {{"second", 2}});
    opened[0]->finish();
  }
  CHECK(server.has_request(R"("key":"first")"));
  CHECK(server.has_request(R"("key":"second")"));
  CHECK(journals(folder / "trackers").empty());

  std::vector<std::filesystem::path> rest;
  std::string text;
  {
    auto opened = open(3);
    opened[0]->log(3, {{"third", 3}});
    rest = journals(folder / "trackers");
    REQUIRE(rest.size() == 1);
    text = test::read_all(rest[0]);
    opened[0]->finish();
  }
  test::write_all(rest[0], text);  // as a kill leaves it
  server.forget("third");
  {
    auto opened = open(1);  // a new run in the same folder
    auto const notes = opened[0]->take_notes();
    REQUIRE(!notes.empty());
    CHECK(notes[0] == "mlflow: metrics of an earlier run wait in " + rest[0].string() +
                          "; send them: track " + rest[0].string());
    opened[0]->finish();
  }
  std::vector<std::string> messages;
  CHECK(trackers::send_journal(rest[0], "python3", server.client(), std::chrono::seconds(20),
                               [&](std::string const& text) { messages.push_back(text); }));
  CHECK(server.has_request(R"("key":"third")"));
  CHECK(journals(folder / "trackers").empty());
}

TEST_CASE("track: a killed run ends as killed at its server, one that goes on is left alone") {
  test::temporary_folder const folder;
  server_double server;
  auto const config = config_of(folder.path());
  auto const open = trackers::make_tracker_opener(config.run, config.checkpoint,
                                                  config.output.loggers, server.client());
  auto const send = [&](std::filesystem::path const& journal) {
    return trackers::send_journal(journal, "python3", server.client(), std::chrono::seconds(20),
                                  [](std::string const&) {});
  };
  std::string text;
  {
    auto opened = open(1);
    opened[0]->log(1, {{"loss", 1}});
    auto const journal = journals(folder / "trackers").at(0);
    CHECK(test::contains(test::message_of([&] { static_cast<void>(send(journal)); }),
                         "another program sends these metrics"));
    text = test::read_all(journal);
    opened[0]->finish();
  }
  CHECK(server.has_request(R"("status":"FINISHED")"));
  CHECK(!server.has_request(R"("status":"KILLED")"));
  auto const journal = folder / "trackers" / "mlflow-k.jsonl";
  test::write_all(journal, text);  // as a kill leaves it
  CHECK(send(journal));
  CHECK(server.has_request(R"("status":"KILLED")"));
}

TEST_CASE("trackers: a run whose journal another program sends goes to another run") {
  test::temporary_folder const folder;
  server_double server;
  auto const config = config_of(folder.path());
  auto const open = trackers::make_tracker_opener(config.run, config.checkpoint,
                                                  config.output.loggers, server.client());
  auto first = open(1);
  auto second = open(2);  // of the same run
  auto const notes = second[0]->take_notes();
  REQUIRE(!notes.empty());
  CHECK(test::contains(notes[0], "mlflow: another program sends the metrics of run "));
  CHECK(test::contains(notes[0], "; those of this run go to another one, "));
  first[0]->log(1, {{"first", 1}});
  second[0]->log(2, {{"second", 1}});
  first[0]->finish();
  second[0]->finish();
  for (auto const& text : notes) CHECK(!test::contains(text, "an earlier run"));  // it goes on
  CHECK(server.has_request(R"("key":"first")"));
  CHECK(server.has_request(R"("key":"second")"));
  CHECK(journals(folder / "trackers").empty());
}

TEST_CASE("trackers: a run that must go on, but whose id is in use, goes to a new run") {
  test::temporary_folder const folder;
  auto const client = folder / "client";  // takes everything, so that nothing waits for it
  test::write_all(client, "#!/bin/sh\ncat > /dev/null\necho '{\"type\": \"finished\"}'\n");
  std::filesystem::permissions(client, std::filesystem::perms::owner_all);
  auto config = config_of(folder.path());
  config.output.loggers.mlflow.reset();
  config.output.loggers.python_trackers = {
      {.python = client.string(), .id = "twin", .resume = "must"}};
  auto const open =
      trackers::make_tracker_opener(config.run, config.checkpoint, config.output.loggers, {});
  auto const first = open(1);
  auto const second = open(1);
  auto const files = journals(folder / "trackers");
  REQUIRE(files.size() == 2);
  for (auto const& file : files) {
    auto const text = test::read_all(file);
    auto const settings = nlohmann::json::parse(text.substr(0, text.find('\n'))).at("settings");
    CHECK(settings.contains("resume") == (file.filename() == "wandb-twin.jsonl"));
  }
}

TEST_CASE("trackers: a disk that is full from the beginning is told of, and the run goes on") {
  test::temporary_folder const folder;
  server_double server;
  auto const config = config_of(folder.path());
  auto const open = trackers::make_tracker_opener(config.run, config.checkpoint,
                                                  config.output.loggers, server.client());
  std::vector<std::unique_ptr<mpt::tracker>> opened;
  {
    test::file_size_limit const few_bytes(20);
    opened = open(1);
  }
  REQUIRE(opened.size() == 1);
  opened[0]->log(1, {{"loss", 1}});
  opened[0]->fail();
  auto const notes = opened[0]->take_notes();
  REQUIRE(notes.size() == 1);
  CHECK(
      test::contains(notes[0], "cannot be written, as on a full disk; this run's metrics do not"));
  CHECK(journals(folder / "trackers").empty());
}

TEST_CASE("track: a file that is not a journal is refused and stays") {
  test::temporary_folder const folder;
  auto const problem_of = [&](std::string const& content) {
    test::write_all(folder / "j", content);
    auto const message = test::message_of([&] {
      static_cast<void>(trackers::send_journal(folder / "j", "python3", {}, std::chrono::seconds(1),
                                               [](auto const&) {}));
    });
    CHECK(test::read_all(folder / "j") == content);
    return message;
  };
  CHECK(test::contains(problem_of("{\"loss\": 1}\n"), "is no journal of a tracker"));
  CHECK(test::contains(problem_of("{\"type\": 3}\n"), "is no journal of a tracker"));
  CHECK(test::contains(problem_of("metrics without a line end"), "is no journal of a tracker"));
  CHECK(test::contains(problem_of(R"({"type":"init","protocol":1,"client":"x\u001b"})"
                                  "\n"),
                       "names a client that is not known here: x?"));
  CHECK(test::contains(test::message_of([&] {
                         static_cast<void>(trackers::send_journal(folder / "none", "python3", {},
                                                                  std::chrono::seconds(1),
                                                                  [](auto const&) {}));
                       }),
                       "no such file"));
}

}  // namespace open_trackers_test
