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

#include <parallel/comm/heartbeat.hpp>
#include <parallel/support/files.hpp>

namespace heartbeat_test {
using namespace std::chrono_literals;
using namespace parallel;

std::shared_ptr<flight_recorder> recorder_in(std::filesystem::path const& folder, int rank) {
  return std::make_shared<flight_recorder>(flight_ring(flight_file(folder, rank), rank, 2, 8));
}

TEST_CASE("a rank that counts runs, one that does not stands still when the limit is over") {
  test::temporary_folder const folder;
  auto const other = recorder_in(folder.path(), 1);
  auto now = steady_time() + 1h;
  heartbeat_watch watch(flight_file(folder.path(), 1), 5s, now);
  for (int quarter = 0; quarter < 40; ++quarter) {
    other->ring().beat(false);
    REQUIRE_FALSE(watch.is_stalled(now += 250ms));
  }
  for (int quarter = 0; quarter < 20; ++quarter) REQUIRE_FALSE(watch.is_stalled(now += 250ms));
  CHECK(watch.is_stalled(now += 250ms));
}

TEST_CASE("whoever stood still itself blames nobody for that time") {
  test::temporary_folder const folder;
  auto const other = recorder_in(folder.path(), 1);
  auto now = steady_time() + 1h;
  heartbeat_watch watch(flight_file(folder.path(), 1), 5s, now);
  CHECK_FALSE(watch.is_stalled(now += 250ms));
  CHECK_FALSE(watch.is_stalled(now += 1h));
  other->ring().beat(false);
  CHECK_FALSE(watch.is_stalled(now += 250ms));
}

TEST_CASE("a rank without a file has ended well or not begun") {
  test::temporary_folder const folder;
  auto now = steady_time() + 1h;
  heartbeat_watch watch(flight_file(folder.path(), 1), 5s, now);
  for (int second = 0; second < 20; ++second)
    for (int quarter = 0; quarter < 4; ++quarter) REQUIRE_FALSE(watch.is_stalled(now += 250ms));
  auto const other = recorder_in(folder.path(), 1);  // from now on it counts
  CHECK_FALSE(watch.is_stalled(now += 250ms));
  other->ring().remove_file();
  for (int quarter = 0; quarter < 40; ++quarter) REQUIRE_FALSE(watch.is_stalled(now += 250ms));
}

TEST_CASE("a process that is stopped is named, with what it did last; one that runs is not") {
  test::temporary_folder const folder;
  auto const file = flight_file(folder.path(), 1);
  auto const child = ::fork();
  if (child == 0) {
    auto const own = recorder_in(folder.path(), 1);
    auto const call =
        own->record_enqueued({.kind = operation_kind::all_reduce, .line = 31, .count = 5}, 20, 7);
    own->set_state(call.number, call_state::running);
    heartbeat const beats(own, flight_file(folder.path(), 9), [](std::string const&) {});
    for (;;) std::this_thread::sleep_for(1s);
  }
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(5ms);
  std::atomic<int> lost = 0;
  std::string sentence;
  {
    heartbeat const watches(recorder_in(folder.path(), 0), file,
                            [&](std::string const& text) {
                              sentence = text;
                              ++lost;
                            },
                            {.limit = 1s});
    std::this_thread::sleep_for(2s);
    CHECK(lost == 0);
    REQUIRE(::kill(child, SIGSTOP) == 0);
    auto const until = std::chrono::steady_clock::now() + 20s;
    while (lost == 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(10ms);
  }
  CHECK(lost == 1);
  CHECK(test::contains(sentence, concat("rank 1 (process ", child, " on ")));
  CHECK(
      test::contains(sentence, "stands still: it has not run for 1 s; its last call: all_reduce"));
  CHECK(test::contains(sentence, ", in which it is"));
  REQUIRE(::kill(child, SIGKILL) == 0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
}
}  // namespace heartbeat_test
