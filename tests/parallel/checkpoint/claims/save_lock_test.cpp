#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/claims/save_lock.hpp>
#include <parallel/support/files.hpp>

namespace save_lock_test {
namespace pc = parallel::checkpoint;

pc::save_lock lock_of(std::filesystem::path const& folder) { return {folder / ".lock", folder}; }

std::string refusal_of(std::filesystem::path const& folder) {
  return test::message_of([&] { static_cast<void>(lock_of(folder)); });
}

TEST_CASE("save lock: a folder has one writer, which is named, and none after it is released") {
  test::temporary_folder const scratch;
  auto const folder = scratch.path() / "runs" / "one";
  std::filesystem::create_directories(folder);
  {
    auto const held = lock_of(folder);
    auto const message = refusal_of(folder);
    CHECK(message.find(folder.native() + ": another program is writing here (process " +
                       std::to_string(::getpid()) + " on ") == 0);
    CHECK(message.find(" UTC)") != std::string::npos);
  }
  CHECK(std::filesystem::is_empty(folder));
  CHECK(refusal_of(folder).empty());
}

TEST_CASE("save lock: the lock of a killed program is free, as is a stale file without a holder") {
  test::temporary_folder const scratch;
  auto const folder = scratch.path();
  int ready[2] = {};
  REQUIRE(::pipe(ready) == 0);
  auto const child = ::fork();
  if (child == 0) {
    auto const held = lock_of(folder);
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK(refusal_of(folder).find("process " + std::to_string(child) + " on ") != std::string::npos);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(std::filesystem::exists(folder / ".lock"));
  CHECK(refusal_of(folder).empty());
  CHECK(std::filesystem::is_empty(folder));
  std::ofstream(folder / ".lock") << "process 1 on another since long ago\n";
  CHECK(refusal_of(folder).empty());
  CHECK(std::filesystem::is_empty(folder));
}

TEST_CASE("save lock: one at a time holds a lock that is taken and released concurrently") {
  test::temporary_folder const scratch;
  std::atomic<int> holders = 0;
  std::atomic<int> max_holders = 0;
  std::atomic<int> locked_count = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int time = 0; time < 500; ++time) try {
          auto const lock = lock_of(scratch.path());
          max_holders = std::max(max_holders.load(), ++holders);
          std::this_thread::yield();
          --holders;
          ++locked_count;
        } catch (parallel::error const&) {  // another thread holds it
        }
    });
  threads.clear();
  CHECK(max_holders == 1);
  CHECK(locked_count > 0);
}

TEST_CASE("save lock: no lock is taken through a link") {
  test::temporary_folder const scratch;
  auto const folder = scratch.path();
  std::ofstream(folder / "notes.txt") << "mine";
  std::filesystem::create_symlink("notes.txt", folder / ".lock");
  CHECK(refusal_of(folder).find("cannot create this file") != std::string::npos);
  CHECK(std::filesystem::file_size(folder / "notes.txt") == 4);
}

}  // namespace save_lock_test
