// A program that runs alongside this one: its lines, its end, and what it inherits.
#include <chrono>
#include <csignal>
#include <string>

#include <unistd.h>

#include <doctest/doctest.h>

#include <mpt/trackers/companion_sender.hpp>
#include <parallel/support/files.hpp>

namespace companion_process_test {

using mpt::trackers::companion_process;
using namespace std::chrono_literals;

bool is_not_cancelled() { return false; }

TEST_CASE("companion process: lines go in and come out until its input ends") {
  test::temporary_folder const folder;
  companion_process process(
      {"sh", "-c", "while read l; do echo \"<$l>\"; done; echo end; echo said >&2"},
      folder / "log");
  CHECK(process.write("one\ntwo\n", is_not_cancelled));
  CHECK(process.read_line(10s, is_not_cancelled) == "<one>");
  CHECK(process.read_line(10s, is_not_cancelled) == "<two>");
  CHECK(process.read_line(20ms, is_not_cancelled) == std::nullopt);
  process.close_input();
  CHECK(process.read_line(10s, is_not_cancelled) == "end");
  CHECK(process.end() == "ended with status 0");
  CHECK(test::read_all(folder / "log") == "said\n");
}

TEST_CASE("companion process: a program that is not there is named") {
  test::temporary_folder const folder;
  auto const message = test::message_of(
      [&] { companion_process const process({"no-such-program-here"}, folder / "log"); });
  CHECK(message == "cannot start no-such-program-here: No such file or directory");
}

TEST_CASE("companion process: one that dies or does not read is noticed, and ended") {
  test::temporary_folder const folder;
  companion_process killed({"sh", "-c", "kill -9 $$"}, folder / "log");
  CHECK(killed.read_line(10s, is_not_cancelled) == std::nullopt);
  CHECK(killed.end() == "was killed by signal 9 (Killed)");
  CHECK(!killed.write("x\n", is_not_cancelled));

  companion_process idle({"sleep", "1000"}, folder / "log");
  auto const begin = std::chrono::steady_clock::now();
  auto const is_late = [&] { return std::chrono::steady_clock::now() - begin > 200ms; };
  CHECK(!idle.write(std::string(16 << 20, 'x'), is_late));  // more than its pipe holds
  CHECK(idle.is_running());
  CHECK(idle.end() == "was killed by signal 9 (Killed)");
}

TEST_CASE("companion process: has no files of this process, and its own group") {
  test::temporary_folder const folder;
  int const leaked = ::dup(STDOUT_FILENO);  // inherited by programs, unless it is closed
  companion_process process(
      {"sh", "-c", "ls /proc/self/fd | tr '\\n' ' '; echo; ps -o pgid= -p $$"}, folder / "log");
  auto const files = process.read_line(10s, is_not_cancelled);
  CHECK(files == "0 1 2 3 ");  // 3 is that of the listing itself
  auto const group = process.read_line(10s, is_not_cancelled);
  if (group) CHECK(std::stoi(*group) != ::getpgrp());
  ::close(leaked);
}

}  // namespace companion_process_test
