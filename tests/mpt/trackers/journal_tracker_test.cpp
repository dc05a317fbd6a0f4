// A tracker whose destination is slow, dead or wrong holds nothing up and loses nothing.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/trackers/journal_tracker.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/support/files.hpp>
#include <support/file_size_limit.hpp>

namespace journal_tracker_test {

using mpt::trackers::journal_tracker;
using mpt::trackers::record_sender;
using mpt::trackers::send_failure;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

/// What a fake destination has got and how it behaves; outlives its sender.
struct destination {
  std::string received;
  std::atomic<int> calls = 0, restarts = 0;
  std::atomic<bool> is_completed = false;
  bool refuses_end = false;
  std::function<void(int call, record_sender::cancellation const&)> behave = [](int, auto const&) {
  };
};

class fake_sender : public record_sender {
 public:
  explicit fake_sender(destination& target) : target_(target) {}
  [[nodiscard]] std::size_t send(std::string_view lines,
                                 cancellation const& is_cancelled) override {
    target_.behave(++target_.calls, is_cancelled);
    auto const line = lines.substr(0, lines.find('\n') + 1);  // one at a time
    target_.received += line;
    return line.size();
  }
  void complete(cancellation const&) override {
    if (target_.refuses_end) throw send_failure("no room", send_failure::remedy::give_up);
    target_.is_completed = true;
  }
  void restart() override {
    ++target_.restarts;
    target_.received.clear();
  }
  [[nodiscard]] std::chrono::milliseconds longest_wait() const override { return 0ms; }

 private:
  destination& target_;
};

mpt::trackers::sending_options const quick{
    .finish = 20s, .failed = 300ms, .first_pause = 5ms, .last_pause = 20ms, .restarts = 2};

std::vector<std::string> notes_of(journal_tracker& tracker) { return tracker.take_notes(); }

/// Logs `count` batches; returns the seconds that it took.
double log_batches(journal_tracker& tracker, int count) {
  auto const begin = clock::now();
  for (int step = 1; step <= count; ++step) tracker.log(step, {{"loss", 1.0 / step}});
  return std::chrono::duration<double>(clock::now() - begin).count();
}

TEST_CASE("journal tracker: everything arrives in order, and the journal is deleted") {
  test::temporary_folder const folder;
  destination target;
  journal_tracker tracker("x", folder / "j.jsonl", std::make_unique<fake_sender>(target), quick);
  tracker.append("first");
  log_batches(tracker, 100);
  tracker.finish();
  CHECK(target.is_completed);
  CHECK(target.received.starts_with("first\n{"));
  CHECK(std::count(target.received.begin(), target.received.end(), '\n') == 102);
  CHECK(target.received.find("\"status\":\"finished\"") != std::string::npos);
  CHECK(notes_of(tracker).empty());
  CHECK(!std::filesystem::exists(folder / "j.jsonl"));
}

TEST_CASE("journal tracker: a destination that hangs holds up neither batches nor the end") {
  test::temporary_folder const folder;
  destination target;
  target.behave = [](int call, record_sender::cancellation const& is_cancelled) {
    if (call < 3) return;
    while (!is_cancelled()) std::this_thread::sleep_for(1ms);
    throw send_failure("it hangs", send_failure::remedy::wait);
  };
  auto options = quick;
  options.finish = 200ms;
  {
    journal_tracker tracker("x", folder / "j.jsonl", std::make_unique<fake_sender>(target),
                            options);
    CHECK(log_batches(tracker, 1000) < 5);
    auto const begin = clock::now();
    tracker.finish();
    CHECK(clock::now() - begin < 10s);
    auto const notes = notes_of(tracker);
    REQUIRE(notes.size() == 1);
    CHECK(test::contains(notes[0], "x: it hangs; 999 records wait in "));
    CHECK(test::contains(notes[0], "; send them: track " + (folder / "j.jsonl").string()));
  }
  auto const journal_text = test::read_all(folder / "j.jsonl");
  CHECK(std::count(journal_text.begin(), journal_text.end(), '\n') == 1001);

  destination later;  // a later program sends it
  journal_tracker rest("x", folder / "j.jsonl", std::make_unique<fake_sender>(later), quick);
  CHECK(rest.send_rest(20s));
  CHECK(later.received == journal_text);
}

TEST_CASE("journal tracker: a server that is away for a while is told of once, and gets all") {
  test::temporary_folder const folder;
  destination target;
  target.behave = [](int call, auto const&) {
    if (call >= 5 && call < 9) throw send_failure("away", send_failure::remedy::wait);
  };
  journal_tracker tracker("x", folder / "j.jsonl", std::make_unique<fake_sender>(target), quick);
  log_batches(tracker, 20);
  tracker.finish();
  CHECK(std::count(target.received.begin(), target.received.end(), '\n') == 21);
  auto const notes = notes_of(tracker);
  REQUIRE(notes.size() == 1);
  CHECK(test::contains(notes[0], "x: away; metrics are sent later, and until then kept in "));
}

TEST_CASE("journal tracker: a client that dies is started again with all lines, a few times") {
  test::temporary_folder const folder;
  destination target;
  target.behave = [](int call, auto const&) {
    if (call == 4) throw send_failure("died", send_failure::remedy::restart);
  };
  {
    journal_tracker tracker("x", folder / "j.jsonl", std::make_unique<fake_sender>(target), quick);
    log_batches(tracker, 10);
    tracker.finish();
    CHECK(target.restarts == 1);
    CHECK(std::count(target.received.begin(), target.received.end(), '\n') == 11);
    CHECK(notes_of(tracker).size() == 1);
  }
  destination dead;
  dead.behave = [](int, auto const&) { throw send_failure("died", send_failure::remedy::restart); };
  journal_tracker tracker("x", folder / "j.jsonl", std::make_unique<fake_sender>(dead), quick);
  log_batches(tracker, 10);
  tracker.finish();
  CHECK(dead.calls == quick.restarts + 1);
  auto const notes = notes_of(tracker);
  CHECK(test::contains(notes.back(), "x: died; 11 records wait in "));
}

TEST_CASE("journal tracker: a record that a server refuses for good is not sent again and again") {
  test::temporary_folder const folder;
  destination target;
  target.behave = [](int, auto const&) {
    throw send_failure("no\x1b[31m", send_failure::remedy::give_up);
  };
  journal_tracker tracker("x", folder / "j.jsonl", std::make_unique<fake_sender>(target), quick);
  log_batches(tracker, 10);
  tracker.finish();
  CHECK(target.calls == 1);
  auto const notes = notes_of(tracker);
  REQUIRE(notes.size() == 2);
  CHECK(test::contains(notes[0], "x: no?[31m; the run goes on"));  // nothing for a terminal to obey
  CHECK(test::contains(notes[1], "11 records wait in "));
}

TEST_CASE("journal tracker: a run that fails is marked so") {
  test::temporary_folder const folder;
  for (bool const is_told : {false, true}) {
    destination target;
    {
      journal_tracker tracker("x", folder / "j.jsonl", std::make_unique<fake_sender>(target),
                              quick);
      log_batches(tracker, 2);
      if (is_told) tracker.fail();
    }
    CHECK(target.is_completed);
    CHECK(test::contains(target.received, "\"status\":\"failed\""));
    CHECK(std::count(target.received.begin(), target.received.end(), '\n') == 3);
  }
}

TEST_CASE(
    "journal tracker: a failed run reports unsent records, with the command that sends them") {
  test::temporary_folder const folder;
  destination target;
  target.behave = [](int, auto const&) { throw send_failure("away", send_failure::remedy::wait); };
  journal_tracker tracker("x", folder / "j.jsonl", std::make_unique<fake_sender>(target), quick);
  log_batches(tracker, 2);
  tracker.fail();
  auto const notes = notes_of(tracker);
  REQUIRE(!notes.empty());
  CHECK(test::contains(notes.back(), "x: away; 3 records wait in "));
  CHECK(test::contains(notes.back(), "; send them: track "));
  tracker.finish();  // after the end
  CHECK(notes_of(tracker).empty());
}

TEST_CASE("journal tracker: a run whose program was killed ends so, when it was last heard of") {
  test::temporary_folder const folder;
  auto const path = folder / "j.jsonl";
  auto const last_status = [&](std::string const& text) {
    destination target;
    test::write_all(path, text);
    journal_tracker tracker("x", path, std::make_unique<fake_sender>(target), quick);
    tracker.end_killed_run();
    CHECK(tracker.send_rest(20s));
    return target.received.substr(text.size());
  };
  using nlohmann::json;
  CHECK(json::parse(last_status("{\"type\":\"init\"}\n{\"type\":\"log\",\"time\":17}\n")) ==
        json{{"type", "finish"}, {"status", "killed"}, {"time", 17}});
  CHECK(json::parse(last_status("{\"type\":\"init\"}\n")).at("status") == "killed");
  CHECK(last_status("{\"type\":\"init\"}\n{\"type\":\"finish\",\"status\":\"failed\"}\n").empty());
}

TEST_CASE("journal tracker: a full disk loses its records, is told of once, and the end arrives") {
  test::temporary_folder const folder;
  destination target;
  journal_tracker tracker("x", folder / "j.jsonl", std::make_unique<fake_sender>(target), quick,
                          "first");
  log_batches(tracker, 1);
  {
    test::file_size_limit const full(10);
    log_batches(tracker, 3);
    tracker.finish();
  }
  CHECK(target.is_completed);
  CHECK(std::count(target.received.begin(), target.received.end(), '\n') == 3);
  CHECK(test::contains(target.received, "\"status\":\"finished\""));
  auto const notes = notes_of(tracker);
  REQUIRE(notes.size() == 2);
  CHECK(test::contains(notes[0], "x: metrics are lost: "));
  CHECK(test::contains(notes[0], "cannot be written, as on a full disk; the run goes on"));
  CHECK(notes[1] == "x: 3 records were lost in all");
}

TEST_CASE("journal tracker: an end that found no room is written later, or its loss is told") {
  test::temporary_folder const folder;
  auto const path = folder / "j.jsonl";
  for (bool const has_room : {true, false}) {
    std::filesystem::remove(path);
    destination target;
    std::optional<test::file_size_limit> full;
    target.behave = [&](int, record_sender::cancellation const& is_cancelled) {
      while (!is_cancelled()) std::this_thread::sleep_for(1ms);
      if (has_room) full.reset();
      throw send_failure("away", send_failure::remedy::wait);
    };
    auto options = quick;
    options.finish = 100ms;
    journal_tracker tracker("x", path, std::make_unique<fake_sender>(target), options, "first");
    full.emplace(6);
    tracker.finish();
    full.reset();
    auto const notes = notes_of(tracker);
    REQUIRE(!notes.empty());
    CHECK(test::contains(test::read_all(path), "\"finished\"") == has_room);
    CHECK(std::ranges::any_of(notes, [](auto const& text) {
            return test::contains(text, "x: the end of the run is lost: ");
          }) == !has_room);
    CHECK(test::contains(notes.back(), has_room ? "2 records wait in " : "1 records wait in "));
  }
}

TEST_CASE("journal tracker: a client that is refused at its end has sent nothing for good") {
  test::temporary_folder const folder;
  destination target;
  target.refuses_end = true;
  journal_tracker tracker("x", folder / "j.jsonl", std::make_unique<fake_sender>(target), quick);
  log_batches(tracker, 2);
  tracker.finish();
  CHECK(target.restarts == 0);
  CHECK(test::contains(notes_of(tracker).back(), "x: no room; 3 records wait in "));
}

TEST_CASE("journal tracker: a disk that is full from the beginning opens no tracker") {
  test::temporary_folder const folder;
  destination target;
  test::file_size_limit const full(3);
  CHECK_THROWS_AS(journal_tracker("x", folder / "j.jsonl", std::make_unique<fake_sender>(target),
                                  quick, "first"),
                  parallel::storage_error);
  CHECK(target.calls == 0);
  CHECK(!std::filesystem::exists(folder / "j.jsonl"));
}

TEST_CASE("journal tracker: a journal that was deleted meanwhile is not named as a place") {
  test::temporary_folder const folder;
  destination target;
  target.behave = [](int, auto const&) { throw send_failure("away", send_failure::remedy::wait); };
  journal_tracker tracker("x", folder / "j.jsonl", std::make_unique<fake_sender>(target), quick);
  log_batches(tracker, 2);
  std::filesystem::remove(folder / "j.jsonl");
  tracker.fail();
  CHECK(test::contains(notes_of(tracker).back(), "3 records are lost, as "));
}

}  // namespace journal_tracker_test
