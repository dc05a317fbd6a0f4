#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <parallel/comm/flight/heartbeat.hpp>
#include <parallel/support/files.hpp>

namespace heartbeat_test {
using namespace std::chrono_literals;
using namespace parallel;

std::shared_ptr<flight_recorder> recorder_in(std::filesystem::path const& folder, int rank) {
  return std::make_shared<flight_recorder>(flight_ring(flight_file(folder, rank), rank, 2, 8));
}

TEST_CASE("heartbeat: a rank is stalled when its count does not change for longer than the limit") {
  test::temporary_folder const folder;
  auto const other_recorder = recorder_in(folder.path(), 1);
  auto time = steady_time() + 1h;
  heartbeat_watch watch(flight_file(folder.path(), 1), 5s, time);
  for (int quarter = 0; quarter < 40; ++quarter) {
    other_recorder->ring().beat(false);
    REQUIRE_FALSE(watch.is_stalled(time += 250ms));
  }
  for (int quarter = 0; quarter < 20; ++quarter) REQUIRE_FALSE(watch.is_stalled(time += 250ms));
  CHECK(watch.is_stalled(time += 250ms));
}

TEST_CASE("heartbeat: time in which the watching rank itself was stalled does not count") {
  test::temporary_folder const folder;
  auto const other_recorder = recorder_in(folder.path(), 1);
  auto time = steady_time() + 1h;
  heartbeat_watch watch(flight_file(folder.path(), 1), 5s, time);
  CHECK_FALSE(watch.is_stalled(time += 250ms));
  CHECK_FALSE(watch.is_stalled(time += 1h));
  other_recorder->ring().beat(false);
  CHECK_FALSE(watch.is_stalled(time += 250ms));
}

TEST_CASE("heartbeat: a rank without a file is not stalled") {
  test::temporary_folder const folder;
  auto time = steady_time() + 1h;
  heartbeat_watch watch(flight_file(folder.path(), 1), 5s, time);
  for (int second = 0; second < 20; ++second)
    for (int quarter = 0; quarter < 4; ++quarter) REQUIRE_FALSE(watch.is_stalled(time += 250ms));
  auto const other_recorder = recorder_in(folder.path(), 1);  // the time limit begins
  CHECK_FALSE(watch.is_stalled(time += 250ms));
  other_recorder->ring().remove_file();
  for (int quarter = 0; quarter < 40; ++quarter) REQUIRE_FALSE(watch.is_stalled(time += 250ms));
}

TEST_CASE("heartbeat: a stopped process is named with its last call, a running one is not") {
  test::temporary_folder const folder;
  auto const file = flight_file(folder.path(), 1);
  auto const child = ::fork();
  if (child == 0) {
    auto const own_recorder = recorder_in(folder.path(), 1);
    auto const call = own_recorder->record_enqueued(
        {.kind = operation_kind::all_reduce, .line = 31, .count = 5}, 20, 7);
    own_recorder->set_state(call.number, call_state::running);
    heartbeat const own_heartbeat(own_recorder, flight_file(folder.path(), 9),
                                  [](std::string const&) {});
    for (;;) std::this_thread::sleep_for(1s);
  }
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(5ms);
  std::atomic<int> report_count = 0;
  std::string sentence;
  {
    heartbeat const watching_heartbeat(recorder_in(folder.path(), 0), file,
                                       [&](std::string const& text) {
                                         sentence = text;
                                         ++report_count;
                                       },
                                       {.limit = 1s});
    std::this_thread::sleep_for(2s);
    CHECK(report_count == 0);
    REQUIRE(::kill(child, SIGSTOP) == 0);
    auto const time_limit = std::chrono::steady_clock::now() + 20s;
    while (report_count == 0 && std::chrono::steady_clock::now() < time_limit)
      std::this_thread::sleep_for(10ms);
  }
  CHECK(report_count == 1);
  CHECK(test::contains(sentence, concat("rank 1 (process ", child, " on ")));
  CHECK(test::contains(sentence, "is stalled: it has not run for 1 s; its last call: all_reduce"));
  CHECK(test::contains(sentence, ", in which it is"));
  REQUIRE(::kill(child, SIGKILL) == 0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
}
}  // namespace heartbeat_test
