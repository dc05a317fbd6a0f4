// The way to a Python client: with a client of our own, of which Python's is the interpreter.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <doctest/doctest.h>

#include <mpt/trackers/companion_sender.hpp>
#include <mpt/trackers/line_protocol.hpp>
#include <parallel/support/files.hpp>

namespace companion_sender_test {

using mpt::trackers::companion_sender;
using mpt::trackers::send_failure;

bool is_not_cancelled() { return false; }

/// A folder with modules `wandb` and `trackio` that write their calls into `calls`. Empty if there
/// is no Python.
struct client_folder {
  client_folder() {
    has_python = std::system(
                     "python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' "
                     "2> /dev/null") == 0;
    std::filesystem::create_directories(folder / "wandb");
    test::write_all(folder / "wandb" / "__init__.py", R"(
import json, os, warnings
FILE = os.environ["CALLS"]
def write(*call):
    with open(FILE, "a") as out:
        print(json.dumps(call), file=out)
class Settings(dict):
    model_fields = {"x_stats_pid": int, "x_disable_stats": bool}  # some versions lack others
    def __init__(self, **values): super().__init__(values)
class Table:
    def __init__(self, columns, data): self.rows = [columns] + data
class Run:
    offline, url, dir = True, None, os.path.join(os.path.dirname(FILE), "offline-run-1", "files")
    def __init__(self, id):
        self.id = id
        os.makedirs(self.dir, exist_ok=True)
    def finish(self, exit_code): write("finish", exit_code)
def init(settings, config, **values):
    write("init", config, values, settings)
    print("what clients print is no answer")
    return Run(values["id"])
def log(values, step):
    if "die" in values: os.kill(os.getpid(), 9)
    if "raise" in values: raise ValueError("no\nway")
    if "warn" in values: warnings.warn("some rows may be dropped")
    write("log", step, {n: v.rows if isinstance(v, Table) else repr(v) for n, v in values.items()})
)");
    std::filesystem::create_directories(folder / "trackio");
    // As trackio's documentation has it: a name resumes the last run that has it. What a full disk
    // does not take, the first time, is lost, and later records are stored all the same.
    test::write_all(folder / "trackio" / "__init__.py", R"(
import os, warnings
from .sqlite_storage import FILE, rows, store
class Run:
    def __init__(self, project, name, id): self.project, self.name, self.id = project, name, id
def init(project, name, resume, config):
    global run
    known = [row for row in rows() if row["name"] == name]
    assert resume in ("allow", "never") or known, "no such run"
    id = known[-1]["run"] if known and resume != "never" else len({row["run"] for row in rows()})
    run = Run(project, name, id)
    return run
def log(values, step):
    if "die" in values: os.kill(os.getpid(), 9)
    if "warn" in values: warnings.warn_explicit("rows may be dropped", UserWarning, "/other/a.py", 1)
    if "full" in values and not os.path.exists(FILE + ".full"):
        open(FILE + ".full", "w").close()
        warnings.warn("disk is full:\nthis batch could not be persisted.")
        return
    store({"run": run.id, "name": run.name, "step": step, "values": values})
def finish(): pass
)");
    test::write_all(folder / "trackio" / "sqlite_storage.py", R"(
import json, os
FILE = os.environ["CALLS"]
def rows():
    return [json.loads(line) for line in open(FILE)] if os.path.exists(FILE) else []
def store(row):
    with open(FILE, "a") as out: print(json.dumps(row), file=out)
class SQLiteStorage:
    def get_logs(project, run, run_id):
        return [{**row["values"], "step": row["step"], "timestamp": "now"} for row in rows()
                if (row["name"], row["run"]) == (run, run_id)]
)");
  }
  [[nodiscard]] std::vector<std::string> words(bool is_of_run = false) const {
    std::vector<std::string> out{
        "env",
        "PYTHONPATH=" + folder.path().string(),
        "CALLS=" + (folder / "calls").string(),
        "PYTHONDONTWRITEBYTECODE=1",
    };
    for (auto const& word : mpt::trackers::companion_words("python3", is_of_run))
      out.push_back(word);
    return out;
  }
  [[nodiscard]] std::vector<nlohmann::json> calls() const {
    std::vector<nlohmann::json> found;
    std::istringstream lines(test::read_all(folder / "calls"));
    for (std::string line; std::getline(lines, line);) found.push_back(nlohmann::json::parse(line));
    return found;
  }

  test::temporary_folder folder;
  bool has_python = false;
};

std::string init() {
  return mpt::trackers::init_line({.project = "p", .name = "n", .tags = {"t"}}, {.key = "abc"},
                                  {{"model.d_model", "48"}, {"seed", "17"}}) +
         "\n";
}
std::string batch(std::int64_t step, nlohmann::ordered_json const& record) {
  return mpt::trackers::log_line(step, 1000 * step + 250, record) + "\n";
}

/// Sends `lines` and waits for the client; returns the message of the failure, which must leave
/// `next` to be done, or "" if there was none.
std::string failure_of(companion_sender& sender, std::string const& lines,
                       send_failure::remedy next) {
  try {
    static_cast<void>(sender.send(lines, is_not_cancelled));
    sender.complete(is_not_cancelled);
  } catch (send_failure const& failure) {
    CHECK(failure.next() == next);
    return failure.what();
  }
  return "";
}

TEST_CASE("companion: W&B's client is called with the run's settings, numbers and samples") {
  client_folder const client;
  if (!client.has_python) return;
  companion_sender sender(client.words(true), client.folder / "log");
  auto const lines = init() + batch(1, {{"loss", 0.1}, {"unit", "hours"}, {"nan", std::nan("")}}) +
                     batch(1, {{"console", "eval at 1 ba"}}) +
                     batch(2, {{"loss", 2}, {"generations/0", "a b"}}) + init() +
                     mpt::trackers::finish_line(mpt::trackers::run_end::finished, 1) + "\n";
  CHECK(sender.send(lines, is_not_cancelled) == lines.size());
  sender.complete(is_not_cancelled);
  using nlohmann::json;
  auto const calls = client.calls();
  REQUIRE(calls.size() == 4);
  CHECK(calls[0][1] == json{{"model", {{"d_model", 48}}}, {"seed", 17}});
  CHECK(calls[0][2] ==
        json{{"project", "p"}, {"name", "n"}, {"tags", {"t"}}, {"id", "abc"}, {"resume", "allow"}});
  CHECK(calls[0][3] == json{{"console", "wrap"}, {"silent", true}, {"x_stats_pid", ::getpid()}});
  CHECK(calls[1] ==
        json{"log",
             1,
             {{"loss", "0.1"}, {"unit", "'hours'"}, {"nan", "nan"}, {"_timestamp", "1.25"}}});
  CHECK(calls[2] ==
        json{"log",
             2,
             {{"loss", "2"},
              {"_timestamp", "2.25"},
              {"generations", {{"step", "name", "text"}, {2, "generations/0", "a b"}}}}});
  CHECK(calls[3] == json{"finish", 0});
  CHECK(test::contains(test::read_all(client.folder / "log"), "eval at 1 ba\n"));  // its output
  auto const notes = sender.take_notes();
  REQUIRE(notes.size() == 1);
  auto const folder = (client.folder / "offline-run-1").string();
  CHECK(notes[0] == "run abc in " + folder + "; send it: wandb sync " + folder);
}

TEST_CASE(
    "companion: the client measures nothing of the program that sends a run's journal later") {
  client_folder const client;
  if (!client.has_python) return;
  companion_sender sender(client.words(), client.folder / "log");
  static_cast<void>(sender.send(init(), is_not_cancelled));
  sender.complete(is_not_cancelled);
  CHECK(client.calls().at(0)[3] ==
        nlohmann::json{{"console", "wrap"}, {"silent", true}, {"x_disable_stats", true}});
}

TEST_CASE("companion: an offline folder that was deleted is written again, with all lines") {
  client_folder const client;
  if (!client.has_python) return;
  companion_sender sender(client.words(), client.folder / "log");
  auto const lines = init() + batch(1, {{"loss", 1}});
  static_cast<void>(sender.send(lines, is_not_cancelled));
  auto const has_logged = [&] {
    return std::filesystem::exists(client.folder / "calls") && client.calls().size() == 2;
  };
  for (int tries = 0; tries < 6000 && !has_logged(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::filesystem::remove_all(client.folder / "offline-run-1");
  std::string message;
  try {
    sender.complete(is_not_cancelled);
  } catch (send_failure const& failure) {
    CHECK(failure.next() == send_failure::remedy::restart);
    message = failure.what();
  }
  CHECK(test::contains(message, "offline-run-1 was deleted"));
  sender.restart();
  static_cast<void>(sender.send(lines, is_not_cancelled));
  sender.complete(is_not_cancelled);
  CHECK(client.calls().size() == 6);
}

std::string trackio_init(std::string const& key, bool is_resumed = false) {
  return mpt::trackers::init_line({.module = "trackio", .project = "p", .name = "n"},
                                  {.key = key, .is_resumed = is_resumed}, {}) +
         "\n";
}

/// The names and steps of the records that trackio has.
std::vector<std::pair<std::string, int>> steps_of(client_folder const& client) {
  std::vector<std::pair<std::string, int>> found;
  for (auto const& row : client.calls()) found.emplace_back(row.at("name"), row.at("step"));
  return found;
}

TEST_CASE("companion: records that trackio has lost are sent again, and none appears twice") {
  client_folder const client;
  if (!client.has_python) return;
  companion_sender sender(client.words(), client.folder / "log");
  auto const lines = trackio_init("abc") + batch(1, {{"loss", 1}}) + batch(2, {{"full", 0.1}}) +
                     batch(2, {{"eval, unit", "hours"}}) + batch(3, {{"loss", 3}});
  CHECK(test::contains(failure_of(sender, lines, send_failure::remedy::restart),
                       "this batch could not be persisted"));
  sender.restart();
  CHECK(sender.send(lines, is_not_cancelled) == lines.size());
  sender.complete(is_not_cancelled);
  CHECK(steps_of(client) == std::vector<std::pair<std::string, int>>{
                                {"n-abc", 1}, {"n-abc", 2}, {"n-abc", 2}, {"n-abc", 3}});
  sender.restart();
  static_cast<void>(sender.send(lines, is_not_cancelled));
  sender.complete(is_not_cancelled);
  CHECK(client.calls().size() == 4);
}

TEST_CASE("companion: a warning of another package ends no run") {
  client_folder const client;
  if (!client.has_python) return;
  for (auto const& begin : {init(), trackio_init("abc")}) {
    companion_sender sender(client.words(), client.folder / "log");
    auto const lines = begin + batch(1, {{"warn", 1}}) + batch(2, {{"loss", 1}});
    CHECK(sender.send(lines, is_not_cancelled) == lines.size());
    sender.complete(is_not_cancelled);
    CHECK(test::contains(test::read_all(client.folder / "log"), "may be dropped"));
    std::filesystem::remove(client.folder / "log");
    std::filesystem::remove(client.folder / "calls");
  }
}

TEST_CASE("companion: an offline folder without room is said, and not filled by further tries") {
  client_folder const client;
  if (!client.has_python) return;
  companion_sender sender(client.words(), client.folder / "log");
  std::filesystem::create_directories(client.folder / "offline-run-1" / "probe");  // no file fits
  CHECK(test::contains(
      failure_of(sender, init() + batch(1, {{"loss", 1}}), send_failure::remedy::give_up),
      "offline-run-1 finds no room ("));
}

TEST_CASE(
    "companion: trackio goes on in the same run when its client has died or a run is resumed") {
  client_folder const client;
  if (!client.has_python) return;
  auto const send = [&](std::string const& lines) {
    companion_sender sender(client.words(), client.folder / "log");
    static_cast<void>(failure_of(sender, lines, send_failure::remedy::restart));
  };
  auto const record = [](std::int64_t step) { return batch(step, {{"loss", step}}); };
  send(trackio_init("abc") + record(1) + record(2) + batch(3, {{"die", 1}}));
  send(trackio_init("abc") + record(1) + record(2) + record(3));  // the journal again
  // from a checkpoint of batch 1, with one record as before and one that differs
  auto const resumed = trackio_init("abc", true) + record(2) + batch(3, {{"loss", 3.5}});
  send(resumed + batch(4, {{"die", 1}}));
  send(resumed + record(4));                // the journal again
  send(trackio_init("other") + record(1));  // another run of that name
  for (auto const& row : client.calls())
    CHECK(row.at("run") == (row.at("name") == "n-abc" ? 0 : 1));
  CHECK(steps_of(client) ==
        std::vector<std::pair<std::string, int>>{
            {"n-abc", 1}, {"n-abc", 2}, {"n-abc", 3}, {"n-abc", 3}, {"n-abc", 4}, {"n-other", 1}});
}

TEST_CASE("companion: a run whose program is gone ends as failed") {
  client_folder const client;
  if (!client.has_python) return;
  mpt::trackers::companion_process process(client.words(), client.folder / "log");
  CHECK(process.write(init() + batch(1, {{"loss", 1}}), is_not_cancelled));
  process.close_input();
  while (process.read_line(std::chrono::seconds(60), is_not_cancelled)) {
  }
  CHECK(client.calls().back() == nlohmann::json{"finish", 1});
}

TEST_CASE("companion: a client that dies or raises is started again, with all lines") {
  client_folder const client;
  if (!client.has_python) return;
  for (std::string const fault : {"die", "raise"}) {
    companion_sender sender(client.words(), client.folder / "log");
    auto const lines = init() + batch(1, {{fault, 1}});
    std::string message;
    try {
      for (int i = 0; i < 1000; ++i) static_cast<void>(sender.send(lines, is_not_cancelled));
    } catch (send_failure const& failure) {
      CHECK(failure.next() == send_failure::remedy::restart);
      message = failure.what();
    }
    CHECK_MESSAGE(test::contains(message, fault == "die" ? "its client's process "
                                                         : "failed (ValueError: no\nway"),
                  message);
    sender.restart();
    CHECK(sender.send(init(), is_not_cancelled) > 0);
    sender.complete(is_not_cancelled);
    CHECK(client.calls().back() == nlohmann::json{"finish", 1});
  }
}

TEST_CASE("companion: a missing client is refused with the line that installs it") {
  client_folder const client;
  if (!client.has_python) return;
  auto words = client.words();
  words[1] = "PYTHONPATH=";
  companion_sender sender(words, client.folder / "log");
  auto const lines =
      mpt::trackers::init_line({.module = "no_such_client"}, {.key = "abc"}, {}) + "\n";
  auto const message = failure_of(sender, lines, send_failure::remedy::give_up);
  CHECK(test::contains(message, "the Python package no_such_client is missing for "));
  CHECK(test::contains(message, "install it: python3 -m pip install no_such_client"));
}

}  // namespace companion_sender_test
