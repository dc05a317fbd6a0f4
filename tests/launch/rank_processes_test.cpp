// last_error_in: the error message of a rank's log that other nodes are told.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <launch/rank_processes.hpp>

namespace rank_processes_test {

TEST_CASE("last_error_in: the last error of a rank's log is found, and cut where it is long") {
  std::string name = (std::filesystem::temp_directory_path() / "log_test.XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  std::filesystem::path const log = std::filesystem::path(name) / "rank-1.log";
  auto const last_error_of = [&](std::string const& text) {
    std::ofstream(log, std::ios::binary) << text;
    return apps::last_error_in(log);
  };
  CHECK(apps::last_error_in(log) == "");
  CHECK(last_error_of("") == "");
  CHECK(last_error_of("119k parameters\nno error: here\n") == "");
  CHECK(last_error_of(
            "error: rank 1: first\nerror: rank 1: the disk is full\nthe last calls are in x\n") ==
        "rank 1: the disk is full");
  CHECK(last_error_of("error: without an end") == "without an end");
  auto const cut = last_error_of("error: " + std::string(2000, 'x') + "\n");
  CHECK(cut == std::string(500, 'x') + "...");
  CHECK(last_error_of("error: far above\n" + std::string(1 << 16, 'y') + "\n") == "");
  std::filesystem::remove_all(name);
}

}  // namespace rank_processes_test
