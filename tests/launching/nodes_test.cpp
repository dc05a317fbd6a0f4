// The nodes of a run as threads, which meet in one folder.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <launching/nodes.hpp>
#include <launching/outage.hpp>
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
          .least = 2,
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
    where[self][0] = meeting.meet(0).folder;
    if (self == 1) {
      meeting.tell_failure({1, 137, "rank 5 was killed"});
    } else {
      for (;; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
        if (auto const failure = meeting.failure_elsewhere()) {
          told = failure->message + ", code " + std::to_string(failure->code);
          break;
        }
    }
    where[self][1] = meeting.meet(1).folder;
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

TEST_CASE("two launches that call themselves one node are both told so, whenever they come") {
  for (int self = 0; self < 2; ++self)
    for (int round = 0; round < 10; ++round) {
      folder const place;
      static_cast<void>(run_key::read_or_make(place.path / "key"));
      std::string said[2];
      auto const one = [&](std::string& text) {
        node_meeting meeting(place.path, run_key::read(place.path / "key"), report(self),
                             std::chrono::seconds(3));
        try {
          static_cast<void>(meeting.meet(0));
        } catch (parallel::error const& problem) {
          text = problem.what();
        }
      };
      std::thread other(one, std::ref(said[1]));
      std::this_thread::sleep_for(std::chrono::milliseconds(round * round));
      one(said[0]);
      other.join();
      auto const clash =
          "another launch calls itself node " + std::to_string(self) + " there; give each";
      for (auto const& text : said) CHECK_MESSAGE(contains(text, clash), text);
    }
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

TEST_CASE("as many nodes run as there are, at most those wanted, or a multiple") {
  CHECK(apps::nodes_that_run(4, 4, 1) == 4);
  CHECK(apps::nodes_that_run(6, 4, 1) == 4);
  CHECK(apps::nodes_that_run(3, 4, 1) == 3);
  CHECK(apps::nodes_that_run(7, 8, 2) == 6);
  CHECK(apps::nodes_that_run(3, 8, 4) == 0);
}

TEST_CASE("spares take the places of nodes that are gone, node 0 included; then there are fewer") {
  folder const place;
  auto const key = run_key::read_or_make(place.path / "key");
  constexpr int all = 4;
  constexpr int starts = 3;
  apps::node_place got[all][starts];
  // of each start: which nodes fail and are never seen again
  int const gone[starts] = {1, 0, -1};
  int const running[starts] = {3, 3, 2};
  std::atomic<int> came[starts] = {};
  auto const node = [&](int self) {
    auto what = report(self);
    what.nodes = 3;
    what.spares = 1;
    what.least = 2;
    node_meeting meeting(place.path, run_key::read(place.path / "key"), what,
                         std::chrono::seconds(20), std::chrono::seconds(1));
    for (int start = 0;;) {  // the spare may come to the second one first
      auto const at = meeting.meet(start);
      got[self][at.generation] = at;
      start = at.generation + 1;
      if (start == starts) break;
      if (at.position >= 0) ++came[at.generation];
      while (came[at.generation] < running[at.generation])
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (self == gone[at.generation]) return meeting.tell_failure({self, 137, "power"});
      while (!meeting.meets_again()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    meeting.tell_done();
    while (!meeting.all_done()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    meeting.clean();
  };
  std::vector<std::thread> threads;
  for (int self = 0; self < all; ++self) threads.emplace_back(node, self);
  for (auto& one : threads) one.join();
  int const positions[starts][all] = {{0, 1, 2, -1}, {0, 0, 1, 2}, {0, 0, 0, 1}};
  for (int start = 0; start < starts; ++start)
    for (int self = 0; self < all; ++self) {
      if (start > 0 && (self == 1 || (start > 1 && self == 0))) continue;  // gone by then
      CAPTURE(start);
      CAPTURE(self);
      if (got[self][start].folder.empty()) {
        CHECK((start == 0 && self == 3));
        continue;
      }
      CHECK(got[self][start].position == positions[start][self]);
      CHECK(got[self][start].nodes == running[start]);
      CHECK(got[self][start].generation == start);
      CHECK(got[self][start].folder == got[2][start].folder);
    }
  std::filesystem::remove(place.path / "key");
  CHECK(std::filesystem::is_empty(place.path));
}

TEST_CASE("who comes late is a spare of a run that lives, and waits in vain for one that is dead") {
  folder const place;
  auto const key = run_key::read_or_make(place.path / "key");
  auto const node = [&](int self) {
    auto what = report(self);
    what.nodes = 1;
    what.spares = 1;
    what.least = 1;
    return node_meeting(place.path, key, what, std::chrono::seconds(self == 0 ? 20 : 8),
                        std::chrono::seconds(1));
  };
  auto first = node(0);
  CHECK(first.meet(0).position == 0);
  auto late = node(1);
  std::atomic<bool> over = false;
  std::thread runs([&] {
    for (; !over; std::this_thread::sleep_for(std::chrono::milliseconds(50))) first.beat();
  });
  auto const at = late.meet(0);
  CHECK(at.position == -1);
  CHECK(at.nodes == 1);
  CHECK_FALSE(late.meets_again());
  over = true;
  runs.join();
  CHECK_THROWS_WITH_AS(([&] {
                         while (!late.meets_again())
                           std::this_thread::sleep_for(std::chrono::milliseconds(50));
                       }()),
                       doctest::Contains("has given no sign of life for 8 s"), parallel::error);
}

/// Node 0 meets `other` and is gone then, as when its machine is. Where `other` is.
inline apps::node_place meet_and_lose(node_meeting first, node_meeting& other) {
  apps::node_place out;
  std::thread meets([&] { out = other.meet(0); });
  static_cast<void>(first.meet(0));
  meets.join();
  return out;
}

/// The file of who leads the start after that one, the first.
inline std::filesystem::path lead_after(apps::node_place const& at) {
  auto const run = at.folder.filename().string();
  return at.folder.parent_path() / ("lead-" + run.substr(0, run.rfind('-')) + "-1");
}

TEST_CASE("a node 0 that comes back follows whoever leads by then") {
  folder const place;
  auto const key = run_key::read_or_make(place.path / "key");
  auto const node = [&](int self) {
    return node_meeting(place.path, key, report(self), std::chrono::seconds(20),
                        std::chrono::seconds(1));
  };
  auto other = node(1);
  auto second = meet_and_lose(node(0), other);
  other.tell_failure({1, 137, "its peer is gone"});
  auto const led = lead_after(second);
  std::thread meets([&] { second = other.meet(1); });
  while (!std::filesystem::exists(led)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  auto again = node(0);
  auto const back = again.meet(0);
  meets.join();
  CHECK(back.folder == second.folder);
  CHECK(back.generation == 1);
  CHECK(back.position == 0);
  CHECK(second.position == 1);
  CHECK(other.leads());
  CHECK_FALSE(again.leads());
}

TEST_CASE("where who would lead is gone, too, another does") {
  folder const place;
  auto const key = run_key::read_or_make(place.path / "key");
  auto const node = [&](int self) {
    auto what = report(self);
    what.least = 1;
    return node_meeting(place.path, key, what, std::chrono::seconds(20), std::chrono::seconds(1));
  };
  auto other = node(1);
  auto second = meet_and_lose(node(0), other);
  std::ofstream{lead_after(second)};  // node 0 was to lead, and came so far
  auto const left = second.folder.string();
  std::filesystem::create_directory(left.substr(0, left.rfind('-')) + "-1");
  second = other.meet(1);
  CHECK(second.generation == 1);
  CHECK(second.folder.filename().string().ends_with("-1.1"));
  CHECK(second.nodes == 1);
  CHECK(second.position == 0);
  CHECK(other.leads());
}

/// Replaces what a node has said in `run` by what `change` makes of it, as another node would.
template <class Change>
void say_otherwise(std::filesystem::path const& folder, run_key const& key, Change const& change) {
  auto const run = folder / "run";
  std::ifstream in(run);
  std::string seal, text;
  std::getline(in, seal);
  std::getline(in, text);
  text = change(text);
  std::ofstream(run.string() + ".other") << key.seal("run\n" + text) << '\n' << text;
  std::filesystem::rename(run.string() + ".other", run);
}

inline std::string with(std::string text, std::string const& part, std::string const& instead) {
  auto const at = text.find(part);
  return at == std::string::npos ? text : text.replace(at, part.size(), instead);
}

TEST_CASE("who stood still while it gathered the next start follows the one that leads by then") {
  folder const place;
  auto const key = run_key::read_or_make(place.path / "key");
  auto const node = [&](int self) {
    auto what = report(self);
    what.least = 1;
    return node_meeting(place.path, key, what, std::chrono::seconds(1000),
                        std::chrono::seconds(1000));
  };
  auto first = node(0);
  auto second = node(1);
  auto const begun = [&] {
    apps::node_place out;
    std::thread meets([&] { out = second.meet(0); });
    static_cast<void>(first.meet(0));
    meets.join();
    return out;
  }();
  auto const old = begun.folder.filename().string();
  auto const run = old.substr(0, old.rfind('-'));
  std::atomic<bool> over = false;
  apps::node_place back;
  std::thread meets([&] {
    back = first.meet(1);
    over = true;
  });
  auto const offered = [&] {
    std::ifstream in(place.path / "run");
    std::string text;
    std::getline(in, text, '\0');
    return contains(text, run + "-1");
  };
  while (!offered()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  while (!over) {  // node 1 leads that start, and has gone on alone
    say_otherwise(place.path, key, [&](std::string text) {
      text = with(text, "\"leader\":0", "\"leader\":1");
      text = with(text, "\"members\":[]", "\"members\":[1]");
      text = with(text, "\"offered\"", "\"go\"");
      return with(text, run + "-1\"", run + "-1.1\"");
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  meets.join();
  CHECK(back.folder.filename().string() == run + "-1.1");
  CHECK(back.generation == 1);
  CHECK(back.position == -1);
  CHECK_FALSE(first.leads());
  // node 1, which was not there, hears that the run has left it behind; it is not at its good end
  auto const heard = second.failure_elsewhere();
  REQUIRE(heard.has_value());
  CHECK(contains(heard->message, "the run was started again without node 1, which stood still"));
  std::filesystem::remove_all(begun.folder);
  CHECK_FALSE(second.all_done());
}

TEST_CASE("where too few nodes are left the run is refused, in numbers") {
  folder const place;
  auto const key = run_key::read_or_make(place.path / "key");
  auto const node = [&](int self, std::chrono::seconds wait) {
    return node_meeting(place.path, key, report(self), wait, std::chrono::seconds(1));
  };
  auto first = node(0, std::chrono::seconds(3));
  auto second = node(1, std::chrono::seconds(3));
  std::thread other([&] { static_cast<void>(second.meet(0)); });
  static_cast<void>(first.meet(0));
  other.join();
  CHECK_THROWS_WITH_AS(static_cast<void>(first.meet(1)),
                       doctest::Contains("node 1 has not come within 3 s"), parallel::error);
}

/// While it lives no file of this process can be opened, as where a folder's server does not
/// answer.
struct no_files {
  no_files() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    auto none = before;
    none.rlim_cur = 0;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~no_files() { static_cast<void>(::setrlimit(RLIMIT_NOFILE, &before)); }
  no_files(no_files const&) = delete;
  no_files& operator=(no_files const&) = delete;
  ::rlimit before{};
};

TEST_CASE("what fails in a folder is tried again, for a time") {
  apps::outage brief(std::chrono::seconds(1000));
  int tries = 0;
  auto const fails = [&] {
    if (++tries < 3) parallel::fail("no answer");
  };
  CHECK_FALSE(brief.passes(fails));
  brief.insist(fails);
  CHECK(tries == 3);
  apps::outage none(std::chrono::seconds(0));
  tries = 0;
  CHECK_THROWS_WITH_AS(static_cast<void>(none.passes(fails)), "no answer", parallel::error);
}

/// Two nodes of a run, which have a folder of their own.
struct two_nodes {
  folder place = {};
  run_key key = run_key::read_or_make(place.path / "key");
  int spares = 0;
  node_meeting first = node(0), second = node(1);

  [[nodiscard]] node_meeting node(int self) const {
    auto what = report(self);
    what.spares = spares;
    return {place.path, key, what, std::chrono::seconds(1000)};
  }
  /// Where they meet, while `meanwhile` is done.
  apps::node_place meet(
      int start, std::function<void()> const& meanwhile = [] {}) {
    apps::node_place at[2];
    std::thread one([&] { at[0] = first.meet(start); });
    std::thread other([&] { at[1] = second.meet(start); });
    meanwhile();
    one.join();
    other.join();
    CHECK(at[0].folder == at[1].folder);
    return at[0];
  }
};

TEST_CASE("a folder that fails for a while ends no run: what is told, heard and met comes later") {
  two_nodes both;
  auto &first = both.first, &second = both.second;
  both.meet(0);
  {
    no_files const now;
    second.tell_failure({1, 137, "rank 5 was killed: \xc3"});  // cut within a character
    CHECK(second.has_to_tell());
    second.beat();
    CHECK(second.has_to_tell());
    CHECK_FALSE(first.failure_elsewhere().has_value());
    CHECK_FALSE(first.meets_again());
    CHECK_FALSE(second.meets_again());
  }
  second.beat();
  CHECK_FALSE(second.has_to_tell());
  auto const heard = first.failure_elsewhere();
  REQUIRE(heard.has_value());
  CHECK(heard->message == "rank 5 was killed: \xef\xbf\xbd");
  {
    auto const begun = std::filesystem::last_write_time(both.place.path / "node-1");
    std::optional<no_files> now;
    now.emplace();
    auto const at = both.meet(1, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      CHECK(std::filesystem::last_write_time(both.place.path / "node-1") == begun);
      now.reset();
    });
    CHECK(at.generation == 1);
  }
}

TEST_CASE("who has not said that it is done is named, and whether others that leave are needed") {
  for (int const number : {0, 1}) {
    CAPTURE(number);
    two_nodes both{.spares = number};
    auto &first = both.first, &second = both.second;
    both.meet(0);
    CHECK(first.not_done() == std::vector<int>{1});
    CHECK(second.not_done() == std::vector<int>{0});
    CHECK_FALSE(second.are_too_few_left());
    first.tell_leave();
    CHECK(second.are_too_few_left() == (number == 0));
    CHECK_FALSE(first.are_too_few_left());
    first.tell_done();
    second.tell_done();
    CHECK(first.not_done().empty());
    CHECK(second.not_done() == std::vector<int>{0});  // which has not removed what is left
    first.clean();
    CHECK(second.all_done());
  }
}

TEST_CASE("who cannot see whether the others are done does not take them to be") {
  two_nodes both;
  auto &first = both.first, &second = both.second;
  both.meet(0);
  auto const aside = both.place.path.string() + ".aside";
  std::filesystem::rename(both.place.path, aside);
  std::filesystem::create_symlink(both.place.path, both.place.path);  // which leads nowhere
  CHECK_FALSE(second.all_done());
  CHECK_FALSE(first.all_done());
  second.tell_done();
  CHECK(second.has_to_tell());
  std::filesystem::remove(both.place.path);
  std::filesystem::rename(aside, both.place.path);
  CHECK_FALSE(first.all_done());
  second.beat();
  CHECK(first.all_done());
  CHECK_FALSE(second.all_done());
  first.clean();
  CHECK(second.all_done());
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
