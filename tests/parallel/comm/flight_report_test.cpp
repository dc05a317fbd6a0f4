#include <unistd.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/flight_report.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/support/files.hpp>

namespace flight_report_test {

using namespace parallel;
using ranks = std::vector<int>;

/// Runs `program` on recorded threads until it ends or fails; returns what their rings then hold.
template <class F>
std::vector<flight_log> logs_of(int count, F program, std::size_t capacity = 64) {
  test::temporary_folder const folder;
  try {
    threads::run(count,
                 [&](threads::communicator& comm) {
                   int const rank = comm.rank();
                   auto const recorder = std::make_shared<flight_recorder>(
                       flight_ring(flight_file(folder.path(), rank), rank, count, capacity));
                   recorded all(std::move(comm), recorder);
                   host::stream s;
                   program(all, s);
                 },
                 {.deadline = std::chrono::milliseconds(50)});
  } catch (error const&) {  // NOLINT(bugprone-empty-catch): what the rings say of it is the test
  }
  return read_flights(folder.path());
}

TEST_CASE("of a run that ends well there is nothing to say") {
  auto const logs = logs_of(4, [](auto& all, auto& s) {
    auto pair = all.split(all.rank() / 2, "tensor");
    std::vector<float> x(4);
    if (all.rank() < 2) pair.all_reduce(s, std::span(x), reduction::sum).wait();
    all.barrier(s).wait();
    if (all.rank() == 0) all.send(s, std::span<float const>(x), 3, 1).wait();
    if (all.rank() == 3) all.recv(s, std::span(x), 0, 1).wait();
    s.synchronize();
  });
  REQUIRE(logs.size() == 4);
  auto const found = findings(logs);
  CHECK(found.waits.empty());
  CHECK(found.late.empty());
  CHECK(found.divergence.empty());
  auto const text = report(logs);
  CHECK(test::contains(text, "rank 3 (process "));
  CHECK(test::contains(text, "no rank waited for another, and all did the same"));
}

TEST_CASE("the rank that did not come is named, not those that wait for others that wait for it") {
  // 3 is late in a pair; 2 waits there, and all others wait for both
  auto const logs = logs_of(4, [](auto& all, auto& s) {
    auto pair = all.split(all.rank() / 2, "tensor");
    std::vector<float> x(6);
    if (all.rank() == 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return;
    }
    pair.all_reduce(s, std::span(x), reduction::sum).wait();
    all.barrier(s).wait();
  });
  auto const found = findings(logs);
  CHECK(found.late == ranks{3});
  REQUIRE(found.waits.size() == 2);
  bool pair = false;
  bool world = false;
  for (auto const& wait : found.waits) {
    if (wait.waiting_ranks == ranks{2} && wait.absent_ranks == ranks{3}) pair = true;
    if (wait.waiting_ranks == ranks{0, 1} && wait.absent_ranks == ranks{2, 3}) world = true;
  }
  CHECK(pair);
  CHECK(world);
  CHECK(found.divergence.empty());
  auto const text = report(logs);
  CHECK(test::contains(text, "late: rank 3 was in no call while others waited\n"));
  CHECK(test::contains(text, "rank 2 waits for rank 3 since "));
  CHECK(test::contains(text, "all_reduce(sum) of 6 f32 over tensor at flight_report_test.cpp:"));
}

TEST_CASE(
    "a rank that made no call at all is waited for; one without a file is said to have none") {
  auto logs = logs_of(3, [](auto& all, auto& s) {
    if (all.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (all.rank() != 1) all.barrier(s).wait();
  });
  auto const found = findings(logs);
  CHECK(found.late == ranks{1});
  CHECK(test::contains(report(logs), "made no call"));
  logs.erase(logs.begin() + 1);
  CHECK(test::contains(report(logs), "rank 1 left no file here\n"));
}

TEST_CASE("who does not come where the others agree on what comes next is named") {
  auto const logs = logs_of(3, [](auto& all, host::stream& s) {
    all.barrier(s).wait();
    if (all.rank() != 1) static_cast<void>(all.open_exchange()({.count = 1}));
  });
  auto const found = findings(logs);
  REQUIRE(found.waits.size() == 1);
  CHECK(found.waits[0].call.call_signature.kind == operation_kind::agreement);
  CHECK(found.waits[0].waiting_ranks == ranks{0, 2});
  CHECK(found.waits[0].absent_ranks == ranks{1});
  CHECK(found.late == ranks{1});
  CHECK(found.divergence.empty());
}

TEST_CASE("who waits for a message waits for its sender") {
  auto const logs = logs_of(2, [](auto& all, auto& s) {
    std::vector<float> x(4);
    if (all.rank() == 0) all.recv(s, std::span(x), 1, 7).wait();
    if (all.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  CHECK(findings(logs).late == ranks{1});
  CHECK(test::contains(report(logs), "rank 0 waits for rank 1 since "));
}

TEST_CASE("the first call that ranks made differently is told, rings that forgot others too") {
  for (std::size_t const capacity : {4U, 64U}) {
    auto const logs = logs_of(
        3,
        [](auto& all, auto& s) {
          std::vector<float> x(8);
          for (int i = 0; i < 10; ++i) all.barrier(s).wait();
          auto const count = all.rank() == 2 ? 5U : 8U;
          all.all_reduce(s, std::span(x).first(count), reduction::sum).wait();
        },
        capacity);
    auto const found = findings(logs);
    CHECK(
        test::contains(found.divergence, "ranks disagree in count (call 10 of this communicator)"));
    CHECK(test::contains(found.divergence, "ranks 0, 1: all_reduce(sum) of 8 f32"));
    CHECK(test::contains(found.divergence, "rank 2: all_reduce(sum) of 5 f32"));
    CHECK(test::contains(report(logs), "first divergence: ranks disagree"));
  }
}

TEST_CASE("where all are in one call, nobody is blamed, and that is said") {
  std::vector<flight_log> logs;
  for (int rank = 0; rank < 2; ++rank)
    logs.push_back({.rank = rank,
                    .ranks = 2,
                    .groups = {5},
                    .calls = {{.number = 0,
                               .group = 5,
                               .call_signature = {.kind = operation_kind::all_reduce},
                               .state = call_state::running}}});
  CHECK(findings(logs).waits.empty());
  CHECK(findings(logs).late.empty());
  CHECK(test::contains(report(logs), "all came to the calls that were under way"));
}

TEST_CASE("times are before now while a rank runs, else before the last note of any") {
  using namespace std::chrono;
  auto const now = duration_cast<nanoseconds>(system_clock::now().time_since_epoch());
  flight_log log{.rank = 0, .ranks = 2, .process = ::getpid(), .machine = machine_name()};
  log.calls.push_back({.number = 0,
                       .state_since = (now - seconds(7)).count(),
                       .call_signature = {.kind = operation_kind::barrier},
                       .state = call_state::running});
  auto const told = [&] { return report(std::span(&log, 1)); };
  CHECK(test::contains(told(), "0 running for 7."));
  log.process = -1;
  CHECK(test::contains(told(), "0 running for 0.0 s"));
  log.process = ::getpid();
  log.machine = "another";
  CHECK(test::contains(told(), "0 running for 0.0 s"));
}

}  // namespace flight_report_test
