// The nodes of a run as threads, which meet in one folder.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <launching/nodes.hpp>
#include <parallel/core/error.hpp>

namespace nodes_test {

using apps::node_meeting;
using apps::node_report;
using apps::run_key;

inline bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

struct folder {
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "nodes_test.XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

inline node_report report(int node) {
  return {.node = node,
          .nodes = 2,
          .ranks = 4,
          .host = "host" + std::to_string(node),
          .program = "/bin/pretrain",
          .program_hash = "ab",
          .arguments = {"mpt.yaml", "seed=1"},
          .files = {{"mpt.yaml", "cd"}}};
}

TEST_CASE("what nodes differ in is said, with both names") {
  auto const said = [](auto const& change) {
    std::vector<node_report> all{report(0), report(1)};
    change(all[1]);
    return difference(all);
  };
  CHECK(said([](auto&) {}) == "");
  CHECK(said([](auto& one) { one.clock = 20; }) == "");
  CHECK(said([](auto& one) { one.clock = -75; }) ==
        "the clock of node 1 (host1) is 75 s behind that of node 0 (host0); set the machines' "
        "clocks (chrony, ntp)");
  CHECK(contains(said([](auto& one) { one.program_hash = "ef"; }),
                 "node 1 (host1) runs another program than node 0 (host0)"));
  CHECK(contains(said([](auto& one) { one.arguments[1] = "seed=2"; }), "'seed=2', not 'seed=1'"));
  CHECK(contains(said([](auto& one) { one.arguments.pop_back(); }), "nothing, not 'seed=1'"));
  CHECK(contains(said([](auto& one) { one.files["mpt.yaml"] = "ef"; }),
                 "node 1 (host1) has another mpt.yaml than node 0 (host0)"));
  CHECK(contains(said([](auto& one) { one.ranks = 8; }), "node 1 (host1) has -n 8, node 0"));
  CHECK(contains(said([](auto& one) { one.restarts = 8; }), "--restarts 8"));
}

TEST_CASE("nodes meet again after a failure, whatever earlier runs have left") {
  folder const place;
  auto const key = run_key::read_or_make(place.path / "key");
  {  // an earlier run, which died: its node 1 does not answer
    node_meeting before(place.path, key, report(1), std::chrono::seconds(0));
    CHECK_THROWS_WITH_AS(static_cast<void>(before.meet(0)),
                         doctest::Contains("node 0 has not answered within 0 s"), parallel::error);
  }
  std::filesystem::path where[2][2];
  std::string told;
  auto const node = [&](int self) {
    node_meeting meeting(place.path, run_key::read(place.path / "key"), report(self),
                         std::chrono::seconds(20));
    where[self][0] = meeting.meet(0);
    if (self == 1) {
      meeting.tell_failure({1, 137, "rank 5 was killed"});
    } else {
      for (;; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
        if (auto const failure = meeting.failure_elsewhere()) {
          told = failure->message + ", code " + std::to_string(failure->code);
          break;
        }
    }
    where[self][1] = meeting.meet(1);
    CHECK(!meeting.failure_elsewhere());
    meeting.tell_done();
    while (!meeting.all_done()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    meeting.clean();
  };
  std::thread other([&] { node(1); });
  node(0);
  other.join();
  CHECK(told == "rank 5 was killed, code 137");
  CHECK(where[0][0] == where[1][0]);
  CHECK(where[0][1] == where[1][1]);
  CHECK(where[0][0] != where[0][1]);
  CHECK(where[0][1].filename().string().ends_with("-1"));  // its generation
  CHECK(!std::filesystem::exists(where[0][0]));            // where an older one finds nobody
}

TEST_CASE("node 0 names the node that has not come, one of an earlier run included") {
  folder const place;
  auto const key = run_key::read_or_make(place.path / "key");
  node_meeting before(place.path, key, report(1), std::chrono::seconds(0));
  CHECK_THROWS_AS(static_cast<void>(before.meet(0)), parallel::error);
  node_meeting now(place.path, key, report(0), std::chrono::seconds(0));
  CHECK_THROWS_WITH_AS(static_cast<void>(now.meet(0)),
                       doctest::Contains("node 1 has not come within 0 s"), parallel::error);
}

TEST_CASE("a key that others can read is refused") {
  folder const place;
  auto const file = place.path / "key";
  auto const key = run_key::read_or_make(file);
  CHECK(key.seal("x") == run_key::read(file).seal("x"));
  CHECK(key.seal("x") != key.seal("y"));
  std::filesystem::permissions(file, std::filesystem::perms::group_read,
                               std::filesystem::perm_options::add);
  CHECK_THROWS_WITH_AS(static_cast<void>(run_key::read(file)),
                       doctest::Contains("a file that only its owner can read"), parallel::error);
  std::ofstream(place.path / "short") << "secret";
  std::filesystem::permissions(place.path / "short", std::filesystem::perms(0600));
  CHECK_THROWS_WITH_AS(static_cast<void>(run_key::read(place.path / "short")),
                       doctest::Contains("64 characters"), parallel::error);
}

}  // namespace nodes_test
