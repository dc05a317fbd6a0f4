// A file of lines that one thread writes and another reads.
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include <doctest/doctest.h>

#include <mpt/trackers/journal.hpp>
#include <parallel/support/files.hpp>
#include <support/file_size_limit.hpp>

namespace journal_test {

using mpt::trackers::journal;

TEST_CASE("journal: whole lines are read, as many as fit") {
  test::temporary_folder const folder;
  journal lines(folder / "deep" / "j.jsonl");
  CHECK(lines.read(0, 100).empty());
  lines.append("one");
  lines.append("two");
  lines.append("a line that is longer than what is asked for");
  CHECK(lines.size() == 8 + 45);
  CHECK(lines.read(0, 8) == "one\ntwo\n");
  CHECK(lines.read(0, 7) == "one\n");
  CHECK(lines.read(4, 4) == "two\n");
  CHECK(lines.read(8, 4) == "a line that is longer than what is asked for\n");
  CHECK(lines.read(53, 100).empty());
  CHECK(lines.count_lines(4) == 2);
}

TEST_CASE("journal: a later one goes on, without a line that was cut off") {
  test::temporary_folder const folder;
  auto const path = folder / "j.jsonl";
  test::write_all(path, "one\ntwo\nthr");
  {
    journal lines(path);
    CHECK(lines.size() == 8);
    lines.append("three");
  }
  CHECK(test::read_all(path) == "one\ntwo\nthree\n");
}

TEST_CASE("journal: the last line is that of the file or of the last append") {
  test::temporary_folder const folder;
  auto const long_line = std::string(200'000, 'x');
  for (std::string const text : {"", "one\n", "one\ntwo\n", "one\n\n"}) {
    test::write_all(folder / "j.jsonl", text + "torn");
    journal lines(folder / "j.jsonl");
    CHECK(lines.last_line() == (text.empty()           ? ""
                                : text == "one\ntwo\n" ? "two\n"
                                : text == "one\n"      ? text
                                                       : "\n"));
    CHECK(lines.append(long_line));
    CHECK(lines.last_line() == long_line + "\n");
  }
  CHECK(journal(folder / "j.jsonl").last_line() == long_line + "\n");
}

TEST_CASE("journal: two programs do not send the same one") {
  test::temporary_folder const folder;
  journal const lines(folder / "j.jsonl");
  CHECK_THROWS_AS(journal(folder / "j.jsonl"), mpt::trackers::journal_in_use);
  CHECK(test::contains(test::message_of([&] { journal const other(folder / "j.jsonl"); }),
                       "another program sends these metrics"));
}

TEST_CASE("journal: whether a program has it open is known without opening it as a journal") {
  test::temporary_folder const folder;
  auto const path = folder / "j.jsonl";
  CHECK(!journal::is_in_use(path));
  CHECK(!std::filesystem::exists(path));
  {
    journal const lines(path);
    CHECK(journal::is_in_use(path));
  }
  CHECK(!journal::is_in_use(path));
}

TEST_CASE("journal: a file that is deleted while its lock is awaited is made anew") {
  test::temporary_folder const folder;
  auto const path = folder / "j.jsonl";
  auto first = std::make_unique<journal>(path);
  first->append("old");
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    first->remove();
    first.reset();
  });
  std::unique_ptr<journal> second;
  while (!second) {
    try {
      second = std::make_unique<journal>(path);
    } catch (mpt::trackers::journal_in_use const&) {
    }
  }
  other.join();
  second->append("new");
  CHECK(second->exists());
  CHECK(test::read_all(path) == "new\n");
  CHECK(second->read(0, 100) == "new\n");
}

TEST_CASE("journal: a line that a full disk takes only half of is no line") {
  test::temporary_folder const folder;
  journal lines(folder / "j.jsonl");
  lines.append("one");
  {
    test::file_size_limit const six_bytes(6);
    CHECK(!lines.append("two"));
  }
  CHECK(lines.last_line() == "one\n");
  lines.append("three");
  CHECK(lines.lost() == 1);
  CHECK(lines.read(0, 100) == "one\nthree\n");
}

TEST_CASE("journal: a file that was cut short ends in one sentence") {
  test::temporary_folder const folder;
  journal lines(folder / "j.jsonl");
  lines.append("one");
  test::write_all(folder / "j.jsonl", "");
  CHECK(test::contains(test::message_of([&] { static_cast<void>(lines.read(0, 100)); }),
                       "was cut short by another program"));
}

}  // namespace journal_test
