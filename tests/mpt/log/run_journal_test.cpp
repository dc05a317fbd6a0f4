// The journal of a run grows by whole lines, whatever its texts hold.
#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/log/run_journal.hpp>
#include <parallel/support/files.hpp>
#include <support/file_size_limit.hpp>

namespace run_journal_test {

std::vector<nlohmann::json> events(std::filesystem::path const& folder) {
  std::vector<nlohmann::json> out;
  std::istringstream text(test::read_all(folder / mpt::journal_name));
  for (std::string line; std::getline(text, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

TEST_CASE("run journal: programs append events with their time, and any text is a text") {
  test::temporary_folder const folder;
  auto const seconds =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  mpt::run_journal(folder / "saves").add("start", {{"ranks", 2}});
  mpt::run_journal(folder / "saves").add("note", {{"text", "line\nend \xff \"quoted\""}});
  auto const found = events(folder / "saves");
  REQUIRE(found.size() == 2);
  CHECK(found[0].at("event") == "start");
  CHECK(found[0].at("ranks") == 2);
  CHECK(found[0].at("time").get<double>() >= seconds - 1);
  CHECK(found[0].at("time").get<double>() < seconds + 60);
  CHECK(found[1].at("text") == "line\nend \xEF\xBF\xBD \"quoted\"");
}

TEST_CASE("run journal: the first event after a crash does not join what the crash left") {
  test::temporary_folder const folder;
  mpt::run_journal(folder.path()).add("start");
  auto const file = folder / mpt::journal_name;
  auto const whole = test::read_all(file);
  test::write_all(file, whole + std::string("{\"ev\0\0", 6));
  mpt::run_journal(folder.path()).add("train");
  CHECK(test::read_all(file).find("\n{\"event\":\"train\"") != std::string::npos);
}

TEST_CASE("run journal: nothing is written through a link in its place") {
  test::temporary_folder const folder;
  test::write_all(folder / "other", "kept");
  std::filesystem::create_symlink("other", folder / mpt::journal_name);
  CHECK(test::contains(test::message_of([&] { mpt::run_journal const journal(folder.path()); }),
                       "run.jsonl: is a link, and nothing is written through it; remove it"));
  CHECK(test::read_all(folder / "other") == "kept");
}

TEST_CASE("run journal: events that do not fit are counted, and none is cut") {
  test::temporary_folder const folder;
  mpt::run_journal journal(folder.path());
  journal.add("train", {{"batches", 0}});
  {
    test::file_size_limit const limit(100);
    journal.add("note", {{"text", std::string(200, 'x')}});
  }
  CHECK(journal.lost() == 1);
  CHECK(events(folder.path()).size() == 1);
}

TEST_CASE("run journal: without a folder nothing is written") {
  mpt::run_journal journal("");
  journal.add("train");
  CHECK(journal.lost() == 0);
}

}  // namespace run_journal_test
