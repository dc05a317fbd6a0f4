// node_meeting: the nodes of a run are threads here, which meet in one folder.
#include <doctest/doctest.h>
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

#include <launch/nodes.hpp>
#include <launch/outage.hpp>
#include <launch/sealed_file.hpp>
#include <parallel/core/error.hpp>
#include <parallel/support/files.hpp>

namespace nodes_test {

using apps::node_meeting;
using apps::node_report;
using apps::run_key;

using namespace std::chrono_literals;
using test::contains;
using test::temporary_folder;

inline node_report report(int node, int min_nodes = 2) {
  return {.node = node,
          .nodes = 2,
          .ranks = 4,
          .min_nodes = min_nodes,
          .host = "host" + std::to_string(node),
          .program = "/bin/pretrain",
          .program_hash = "ab",
          .arguments = {"mpt.yaml", "seed=1"},
          .files = {{"mpt.yaml", "cd"}}};
}

/// The folder and the key of a run, and its nodes.
struct shared_run {
  temporary_folder folder = {};
  run_key key = run_key::read_or_make(folder.path() / "key");

  [[nodiscard]] node_meeting node(node_report const& settings, std::chrono::milliseconds wait,
                                  std::chrono::milliseconds absence_limit = 60s,
                                  std::chrono::milliseconds beat_interval = 5s) const {
    return {folder.path(), key, settings, wait, absence_limit, beat_interval};
  }
};

TEST_CASE("node_report: a difference between two nodes is described with the names of both") {
  auto const difference_with = [](auto const& change) {
    std::vector<node_report> reports{report(0), report(1)};
    change(reports[1]);
    return difference(reports);
  };
  CHECK(difference_with([](auto&) {}) == "");
  CHECK(difference_with([](auto& changed) { changed.clock = 20; }) == "");
  CHECK(difference_with([](auto& changed) { changed.clock = -75; }) ==
        "the clock of node 1 (host1) is 75 s behind that of node 0 (host0); set the machines' "
        "clocks (chrony, ntp)");
  CHECK(contains(difference_with([](auto& changed) { changed.program_hash = "ef"; }),
                 "node 1 (host1) runs another program than node 0 (host0)"));
  CHECK(contains(difference_with([](auto& changed) { changed.arguments[1] = "seed=2"; }),
                 "'seed=2', not 'seed=1'"));
  CHECK(contains(difference_with([](auto& changed) { changed.arguments.pop_back(); }),
                 "nothing, not 'seed=1'"));
  CHECK(contains(difference_with([](auto& changed) { changed.files["mpt.yaml"] = "ef"; }),
                 "node 1 (host1) has another mpt.yaml than node 0 (host0)"));
  CHECK(contains(difference_with([](auto& changed) { changed.ranks = 8; }),
                 "node 1 (host1) has -n 8, node 0"));
  CHECK(contains(difference_with([](auto& changed) { changed.restarts = 8; }), "--restarts 8"));
}

TEST_CASE("node_meeting: nodes meet again after a failure, whatever files earlier runs have left") {
  temporary_folder const shared_folder;
  auto const key = run_key::read_or_make(shared_folder.path() / "key");
  {  // an earlier run that died: its node 0 does not answer
    node_meeting earlier(shared_folder.path(), key, report(1), std::chrono::seconds(0));
    CHECK_THROWS_WITH_AS(static_cast<void>(earlier.meet(0)),
                         doctest::Contains("node 0 has not answered within 0 s"), parallel::error);
  }
  std::filesystem::path rendezvous[2][2];
  std::string failure_text;
  auto const node = [&](int self) {
    node_meeting meeting(shared_folder.path(), run_key::read(shared_folder.path() / "key"),
                         report(self), std::chrono::seconds(20));
    rendezvous[self][0] = meeting.meet(0).folder;
    if (self == 1) {
      meeting.announce_failure({1, 137, "rank 5 was killed"});
    } else {
      for (;; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
        if (auto const failure = meeting.remote_failure()) {
          failure_text = failure->message + ", code " + std::to_string(failure->code);
          break;
        }
    }
    rendezvous[self][1] = meeting.meet(1).folder;
    CHECK(!meeting.remote_failure());
    meeting.announce_done();
    while (!meeting.are_all_done()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    meeting.clean();
  };
  std::thread second_node([&] { node(1); });
  node(0);
  second_node.join();
  CHECK(failure_text == "rank 5 was killed, code 137");
  CHECK(rendezvous[0][0] == rendezvous[1][0]);
  CHECK(rendezvous[0][1] == rendezvous[1][1]);
  CHECK(rendezvous[0][0] != rendezvous[0][1]);
  CHECK(rendezvous[0][1].filename().string().ends_with("-1"));  // its generation
  CHECK(!std::filesystem::exists(rendezvous[0][0]));            // the old folder is gone
}

TEST_CASE("node_meeting: the files that a run of an older version has left are read") {
  nlohmann::json const old_report{{"node", 1}, {"time", 0.5}, {"drawn", "old"}, {"taken", ""}};
  nlohmann::json const old_answer{{"name", "old-0"}, {"drawn", {"a", "b"}}, {"phase", "go"},
                                  {"problem", ""},   {"leader", 0},         {"members", {0, 1}},
                                  {"beat", 0}};
  for (int first = 0; first < 2; ++first) {  // node 0 reads the old report, or node 1 the answer
    shared_run const run;
    apps::write_sealed(run.folder.path() / "node-1", run.key, "old", old_report.dump());
    apps::write_sealed(run.folder.path() / "run", run.key, "old", old_answer.dump());
    std::filesystem::path rendezvous[2];
    auto const meet = [&](int self) {
      rendezvous[self] = run.node(report(self), 20s).meet(0).folder;
    };
    std::thread earlier_node(meet, first);
    std::this_thread::sleep_for(200ms);
    meet(1 - first);
    earlier_node.join();
    CHECK(rendezvous[0] == rendezvous[1]);
  }
}

TEST_CASE(
    "node_meeting: two launches that claim the same node are both refused, whatever their order") {
  for (int self = 0; self < 2; ++self)
    for (int delay = 0; delay < 10; ++delay) {
      temporary_folder const shared_folder;
      static_cast<void>(run_key::read_or_make(shared_folder.path() / "key"));
      std::string messages[2];
      auto const meet = [&](std::string& text) {
        node_meeting meeting(shared_folder.path(), run_key::read(shared_folder.path() / "key"),
                             report(self), std::chrono::seconds(3));
        try {
          static_cast<void>(meeting.meet(0));
        } catch (parallel::error const& problem) {
          text = problem.what();
        }
      };
      std::thread second_launch(meet, std::ref(messages[1]));
      std::this_thread::sleep_for(std::chrono::milliseconds(delay * delay));
      meet(messages[0]);
      second_launch.join();
      auto const expected =
          "another launch calls itself node " + std::to_string(self) + " there; give each";
      for (auto const& text : messages) CHECK_MESSAGE(contains(text, expected), text);
    }
}

TEST_CASE(
    "node_meeting: node 0 names the missing node, also when a file of an earlier run is there") {
  shared_run const shared;
  auto earlier = shared.node(report(1), 0s);
  CHECK_THROWS_AS(static_cast<void>(earlier.meet(0)), parallel::error);
  auto leader = shared.node(report(0), 0s);
  CHECK_THROWS_WITH_AS(static_cast<void>(leader.meet(0)),
                       doctest::Contains("node 1 has not come within 0 s"), parallel::error);
}

TEST_CASE("running_node_count: all wanted nodes, or the largest multiple that is present") {
  CHECK(apps::running_node_count(4, 4, 1) == 4);
  CHECK(apps::running_node_count(6, 4, 1) == 4);
  CHECK(apps::running_node_count(3, 4, 1) == 3);
  CHECK(apps::running_node_count(7, 8, 2) == 6);
  CHECK(apps::running_node_count(3, 8, 4) == 0);
}

TEST_CASE(
    "node_meeting: spares replace lost nodes, node 0 included; without spares fewer nodes run") {
  temporary_folder const shared_folder;
  auto const key = run_key::read_or_make(shared_folder.path() / "key");
  constexpr int node_count = 4;
  constexpr int starts = 3;
  apps::node_assignment assignments[node_count][starts];
  // for each start: the node that fails and never comes back
  int const failing_node[starts] = {1, 0, -1};
  int const running_count[starts] = {3, 3, 2};
  std::atomic<int> arrived_count[starts] = {};
  auto const node = [&](int self) {
    auto settings = report(self);
    settings.nodes = 3;
    settings.spares = 1;
    settings.min_nodes = 2;
    node_meeting meeting(shared_folder.path(), run_key::read(shared_folder.path() / "key"),
                         settings, 20s, 500ms);
    for (int start = 0;;) {  // the spare may see only the second start
      auto const assignment = meeting.meet(start);
      assignments[self][assignment.generation] = assignment;
      start = assignment.generation + 1;
      if (start == starts) break;
      if (assignment.position >= 0) ++arrived_count[assignment.generation];
      while (arrived_count[assignment.generation] < running_count[assignment.generation])
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (self == failing_node[assignment.generation])
        return meeting.announce_failure({self, 137, "power"});
      while (!meeting.has_new_meeting()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    meeting.announce_done();
    while (!meeting.are_all_done()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    meeting.clean();
  };
  std::vector<std::thread> threads;
  for (int self = 0; self < node_count; ++self) threads.emplace_back(node, self);
  for (auto& thread : threads) thread.join();
  int const positions[starts][node_count] = {{0, 1, 2, -1}, {0, 0, 1, 2}, {0, 0, 0, 1}};
  for (int start = 0; start < starts; ++start)
    for (int self = 0; self < node_count; ++self) {
      if (start > 0 && (self == 1 || (start > 1 && self == 0))) continue;  // gone by then
      CAPTURE(start);
      CAPTURE(self);
      if (assignments[self][start].folder.empty()) {
        CHECK((start == 0 && self == 3));
        continue;
      }
      CHECK(assignments[self][start].position == positions[start][self]);
      CHECK(assignments[self][start].nodes == running_count[start]);
      CHECK(assignments[self][start].generation == start);
      CHECK(assignments[self][start].folder == assignments[2][start].folder);
    }
  std::filesystem::remove(shared_folder.path() / "key");
  CHECK(std::filesystem::is_empty(shared_folder.path()));
}

TEST_CASE(
    "node_meeting: a late node is a spare of a live run, and times out when the run is dead") {
  shared_run const shared;
  auto const node = [&](int self) {
    auto settings = report(self, 1);
    settings.nodes = 1;
    settings.spares = 1;
    return shared.node(settings, self == 0 ? 20s : 1s, 300ms, 100ms);
  };
  auto leader = node(0);
  CHECK(leader.meet(0).position == 0);
  auto late_node = node(1);
  std::atomic<bool> is_over = false;
  std::thread runs([&] {
    for (; !is_over; std::this_thread::sleep_for(std::chrono::milliseconds(50))) leader.beat();
  });
  auto const assignment = late_node.meet(0);
  CHECK(assignment.position == -1);
  CHECK(assignment.nodes == 1);
  CHECK_FALSE(late_node.has_new_meeting());
  is_over = true;
  runs.join();
  CHECK_THROWS_WITH_AS(([&] {
                         while (!late_node.has_new_meeting())
                           std::this_thread::sleep_for(std::chrono::milliseconds(50));
                       }()),
                       doctest::Contains("has given no sign of life for 1 s"), parallel::error);
}

/// Node 0 meets `survivor` and disappears then, as when its machine fails. Returns the assignment
/// of `survivor`.
inline apps::node_assignment meet_and_lose(node_meeting first, node_meeting& survivor) {
  apps::node_assignment assignment;
  std::thread meets([&] { assignment = survivor.meet(0); });
  static_cast<void>(first.meet(0));
  meets.join();
  return assignment;
}

/// The file that the leader of the second start creates; `assignment` is of the first start.
inline std::filesystem::path next_lead_file(apps::node_assignment const& assignment) {
  auto const run = assignment.folder.filename().string();
  return assignment.folder.parent_path() / ("lead-" + run.substr(0, run.rfind('-')) + "-1");
}

TEST_CASE("node_meeting: a node 0 that comes back follows the node that leads the run now") {
  shared_run const shared;
  auto survivor = shared.node(report(1), 20s, 500ms);
  auto second = meet_and_lose(shared.node(report(0), 20s, 500ms), survivor);
  survivor.announce_failure({1, 137, "its peer is gone"});
  auto const led = next_lead_file(second);
  std::thread meets([&] { second = survivor.meet(1); });
  while (!std::filesystem::exists(led)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  auto returned_node = shared.node(report(0), 20s, 500ms);
  auto const returned_assignment = returned_node.meet(0);
  meets.join();
  CHECK(returned_assignment.folder == second.folder);
  CHECK(returned_assignment.generation == 1);
  CHECK(returned_assignment.position == 0);
  CHECK(second.position == 1);
  CHECK(survivor.leads());
  CHECK_FALSE(returned_node.leads());
}

TEST_CASE("node_meeting: where the candidate for the lead is gone, too, another node leads") {
  shared_run const shared;
  auto survivor = shared.node(report(1, 1), 20s, 250ms);
  auto second = meet_and_lose(shared.node(report(0, 1), 20s, 250ms), survivor);
  std::ofstream{next_lead_file(second)};  // node 0 has claimed the lead, and is gone then
  auto const first_folder = second.folder.string();
  std::filesystem::create_directory(first_folder.substr(0, first_folder.rfind('-')) + "-1");
  second = survivor.meet(1);
  CHECK(second.generation == 1);
  CHECK(second.folder.filename().string().ends_with("-1.1"));
  CHECK(second.nodes == 1);
  CHECK(second.position == 0);
  CHECK(survivor.leads());
}

/// Replaces the answer in the file `run` by `change` of it, as another node would.
template <class Change>
void replace_answer(std::filesystem::path const& folder, run_key const& key, Change const& change) {
  auto const run = folder / "run";
  std::ifstream in(run);
  std::string seal, text;
  std::getline(in, seal);
  std::getline(in, text);
  text = change(text);
  std::ofstream(run.string() + ".other") << key.seal("run\n" + text) << '\n' << text;
  std::filesystem::rename(run.string() + ".other", run);
}

inline std::string replace_text(std::string text, std::string const& expected,
                                std::string const& new_text) {
  auto const position = text.find(expected);
  return position == std::string::npos ? text : text.replace(position, expected.size(), new_text);
}

TEST_CASE(
    "node_meeting: a leader that was stopped during a meeting follows the node that leads now") {
  shared_run const shared;
  auto first = shared.node(report(0, 1), 1000s, 1000s);
  auto second = shared.node(report(1, 1), 1000s, 1000s);
  auto const first_start = [&] {
    apps::node_assignment assignment;
    std::thread meets([&] { assignment = second.meet(0); });
    static_cast<void>(first.meet(0));
    meets.join();
    return assignment;
  }();
  auto const first_name = first_start.folder.filename().string();
  auto const run = first_name.substr(0, first_name.rfind('-'));
  std::atomic<bool> is_over = false;
  apps::node_assignment assignment;
  std::thread meets([&] {
    assignment = first.meet(1);
    is_over = true;
  });
  auto const is_offered = [&] {
    std::ifstream in(shared.folder.path() / "run");
    std::string text;
    std::getline(in, text, '\0');
    return contains(text, run + "-1");
  };
  while (!is_offered()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  while (!is_over) {  // node 1 leads that start, and has gone on alone
    replace_answer(shared.folder.path(), shared.key, [&](std::string text) {
      text = replace_text(text, "\"leader\":0", "\"leader\":1");
      text = replace_text(text, "\"members\":[]", "\"members\":[1]");
      text = replace_text(text, "\"offered\"", "\"go\"");
      return replace_text(text, run + "-1\"", run + "-1.1\"");
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  meets.join();
  CHECK(assignment.folder.filename().string() == run + "-1.1");
  CHECK(assignment.generation == 1);
  CHECK(assignment.position == -1);
  CHECK_FALSE(first.leads());
  // node 1, which took no part, hears that the run goes on without it; the run has not ended well
  auto const failure = second.remote_failure();
  REQUIRE(failure.has_value());
  CHECK(contains(failure->message, "the run was started again without node 1, which was stalled"));
  std::filesystem::remove_all(first_start.folder);
  CHECK_FALSE(second.are_all_done());
}

TEST_CASE("node_meeting: too few remaining nodes are refused with their numbers") {
  shared_run const shared;
  auto first = shared.node(report(0), 1s, 500ms);
  auto second = shared.node(report(1), 20s, 500ms);
  std::thread other([&] { static_cast<void>(second.meet(0)); });
  static_cast<void>(first.meet(0));
  other.join();
  CHECK_THROWS_WITH_AS(static_cast<void>(first.meet(1)),
                       doctest::Contains("node 1 has not come within 1 s"), parallel::error);
}

/// During its life this process can open no file, as where a folder's server does not answer.
struct file_blocker {
  file_blocker() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &previous_limit) == 0);
    auto blocked = previous_limit;
    blocked.rlim_cur = 0;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &blocked) == 0);
  }
  ~file_blocker() { static_cast<void>(::setrlimit(RLIMIT_NOFILE, &previous_limit)); }
  file_blocker(file_blocker const&) = delete;
  file_blocker& operator=(file_blocker const&) = delete;
  ::rlimit previous_limit{};
};

TEST_CASE("outage: an action that fails is repeated until the time limit") {
  apps::outage long_outage(std::chrono::seconds(1000));
  int attempts = 0;
  auto const fails = [&] {
    if (++attempts < 3) parallel::fail("no answer");
  };
  CHECK_FALSE(long_outage.try_once(fails));
  long_outage.retry(fails);
  CHECK(attempts == 3);
  apps::outage no_outage(std::chrono::seconds(0));
  attempts = 0;
  CHECK_THROWS_WITH_AS(static_cast<void>(no_outage.try_once(fails)), "no answer", parallel::error);
}

/// Two nodes of a run.
struct node_pair {
  int spares = 0;
  shared_run shared = {};
  node_meeting first = node(0), second = node(1);

  [[nodiscard]] node_meeting node(int self) const {
    auto settings = report(self);
    settings.spares = spares;
    return shared.node(settings, 1000s);
  }
  /// Both nodes meet while `action` runs. Returns the first node's assignment.
  apps::node_assignment meet(
      int start, std::function<void()> const& action = [] {}) {
    apps::node_assignment assignments[2];
    std::thread first_thread([&] { assignments[0] = first.meet(start); });
    std::thread second_thread([&] { assignments[1] = second.meet(start); });
    action();
    first_thread.join();
    second_thread.join();
    CHECK(assignments[0].folder == assignments[1].folder);
    return assignments[0];
  }
};

TEST_CASE(
    "node_meeting: a folder that fails for a while delays messages and meetings, but ends no run") {
  node_pair nodes;
  auto &first = nodes.first, &second = nodes.second;
  nodes.meet(0);
  {
    file_blocker const blocker;
    second.announce_failure({1, 137, "rank 5 was killed: \xc3"});  // cut within a character
    CHECK(second.has_pending_messages());
    second.beat();
    CHECK(second.has_pending_messages());
    CHECK_FALSE(first.remote_failure().has_value());
    CHECK_FALSE(first.has_new_meeting());
    CHECK_FALSE(second.has_new_meeting());
  }
  second.beat();
  CHECK_FALSE(second.has_pending_messages());
  auto const failure = first.remote_failure();
  REQUIRE(failure.has_value());
  CHECK(failure->message == "rank 5 was killed: \xef\xbf\xbd");
  {
    auto const write_time = std::filesystem::last_write_time(nodes.shared.folder.path() / "node-1");
    std::optional<file_blocker> blocker;
    blocker.emplace();
    auto const assignment = nodes.meet(1, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      CHECK(std::filesystem::last_write_time(nodes.shared.folder.path() / "node-1") == write_time);
      blocker.reset();
    });
    CHECK(assignment.generation == 1);
  }
}

TEST_CASE(
    "node_meeting: unfinished nodes are named, and nodes that leave are counted against the "
    "minimum") {
  for (int const number : {0, 1}) {
    CAPTURE(number);
    node_pair nodes{.spares = number};
    auto &first = nodes.first, &second = nodes.second;
    nodes.meet(0);
    CHECK(first.unfinished_nodes() == std::vector<int>{1});
    CHECK(second.unfinished_nodes() == std::vector<int>{0});
    CHECK_FALSE(second.are_too_few_left());
    first.announce_leave();
    CHECK(second.are_too_few_left() == (number == 0));
    CHECK_FALSE(first.are_too_few_left());
    first.announce_done();
    second.announce_done();
    CHECK(first.unfinished_nodes().empty());
    CHECK(second.unfinished_nodes() == std::vector<int>{0});  // node 0 has not cleaned up
    first.clean();
    CHECK(second.are_all_done());
  }
}

TEST_CASE("node_meeting: nodes count as done only when the folder can be read") {
  node_pair nodes;
  auto &first = nodes.first, &second = nodes.second;
  nodes.meet(0);
  auto const moved_folder = nodes.shared.folder.path().string() + ".aside";
  std::filesystem::rename(nodes.shared.folder.path(), moved_folder);
  std::filesystem::create_symlink(
      nodes.shared.folder.path(),
      nodes.shared.folder.path());  // a loop, so the folder cannot be read
  CHECK_FALSE(second.are_all_done());
  CHECK_FALSE(first.are_all_done());
  second.announce_done();
  CHECK(second.has_pending_messages());
  std::filesystem::remove(nodes.shared.folder.path());
  std::filesystem::rename(moved_folder, nodes.shared.folder.path());
  CHECK_FALSE(first.are_all_done());
  second.beat();
  CHECK(first.are_all_done());
  CHECK_FALSE(second.are_all_done());
  first.clean();
  CHECK(second.are_all_done());
}

TEST_CASE("run_key: a key file that others can read, or that is too short, is refused") {
  temporary_folder const shared_folder;
  auto const file = shared_folder.path() / "key";
  auto const key = run_key::read_or_make(file);
  CHECK(key.seal("x") == run_key::read(file).seal("x"));
  CHECK(key.seal("x") != key.seal("y"));
  std::filesystem::permissions(file, std::filesystem::perms::group_read,
                               std::filesystem::perm_options::add);
  CHECK_THROWS_WITH_AS(static_cast<void>(run_key::read(file)),
                       doctest::Contains("a file that only its owner can read"), parallel::error);
  std::ofstream(shared_folder.path() / "short") << "secret";
  std::filesystem::permissions(shared_folder.path() / "short", std::filesystem::perms(0600));
  CHECK_THROWS_WITH_AS(static_cast<void>(run_key::read(shared_folder.path() / "short", 100ms)),
                       doctest::Contains("64 characters"), parallel::error);
}

}  // namespace nodes_test
