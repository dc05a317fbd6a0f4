#include <unistd.h>

#include <chrono>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/flight/flight_report.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/support/files.hpp>

namespace flight_report_test {

using namespace parallel;
using ranks = std::vector<int>;

/// Runs `program` on recorded threads until it ends or fails; returns the contents of their rings.
template <class F>
std::vector<flight_log> logs_of(int count, F program, std::size_t capacity = 64) {
  test::temporary_folder const folder;
  try {
    threads::run(count,
                 [&](threads::communicator& world) {
                   int const rank = world.rank();
                   auto const recorder = std::make_shared<flight_recorder>(
                       flight_ring(flight_file(folder.path(), rank), rank, count, capacity));
                   recorded comm(std::move(world), recorder);
                   host::stream s;
                   program(comm, s);
                 },
                 {.deadline = std::chrono::milliseconds(50)});
  } catch (error const&) {  // NOLINT(bugprone-empty-catch): the tests look at the rings
  }
  return read_flights(folder.path());
}

TEST_CASE("flight report: a run that ends well has no findings") {
  auto const logs = logs_of(4, [](auto& comm, auto& s) {
    auto pair = comm.split(comm.rank() / 2, "tensor");
    std::vector<float> x(4);
    if (comm.rank() < 2) pair.all_reduce(s, std::span(x), reduction::sum).wait();
    comm.barrier(s).wait();
    if (comm.rank() == 0) comm.send(s, std::span<float const>(x), 3, 1).wait();
    if (comm.rank() == 3) comm.recv(s, std::span(x), 0, 1).wait();
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

TEST_CASE("flight report: the missing rank is named, not those that wait for it indirectly") {
  // Rank 3 is late in a pair; rank 2 waits there, and all others wait for both.
  auto const logs = logs_of(4, [](auto& comm, auto& s) {
    auto pair = comm.split(comm.rank() / 2, "tensor");
    std::vector<float> x(6);
    if (comm.rank() == 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return;
    }
    pair.all_reduce(s, std::span(x), reduction::sum).wait();
    comm.barrier(s).wait();
  });
  auto const found = findings(logs);
  CHECK(found.late == ranks{3});
  REQUIRE(found.waits.size() == 2);
  bool pair = false;
  bool barrier = false;
  for (auto const& wait : found.waits) {
    if (wait.waiting_ranks == ranks{2} && wait.absent_ranks == ranks{3}) pair = true;
    if (wait.waiting_ranks == ranks{0, 1} && wait.absent_ranks == ranks{2, 3}) barrier = true;
  }
  CHECK(pair);
  CHECK(barrier);
  CHECK(found.divergence.empty());
  auto const text = report(logs);
  CHECK(test::contains(text, "late: rank 3 was in no call while others waited\n"));
  CHECK(test::contains(text, "rank 2 waits for rank 3 since "));
  CHECK(test::contains(text, "all_reduce(sum) of 6 f32 over tensor at flight_report_test.cpp:"));
}

TEST_CASE(
    "flight report: a rank without calls is late; a rank without a file is reported as such") {
  auto logs = logs_of(3, [](auto& comm, auto& s) {
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (comm.rank() != 1) comm.barrier(s).wait();
  });
  auto const found = findings(logs);
  CHECK(found.late == ranks{1});
  CHECK(test::contains(report(logs), "made no call"));
  logs.erase(logs.begin() + 1);
  CHECK(test::contains(report(logs), "rank 1 left no file here\n"));
}

TEST_CASE("flight report: a rank missing from an exchange of signatures is named") {
  auto const logs = logs_of(3, [](auto& comm, host::stream& s) {
    comm.barrier(s).wait();
    if (comm.rank() != 1) static_cast<void>(comm.open_exchange()({.count = 1}));
  });
  auto const found = findings(logs);
  REQUIRE(found.waits.size() == 1);
  CHECK(found.waits[0].call.call_signature.kind == operation_kind::agreement);
  CHECK(found.waits[0].waiting_ranks == ranks{0, 2});
  CHECK(found.waits[0].absent_ranks == ranks{1});
  CHECK(found.late == ranks{1});
  CHECK(found.divergence.empty());
}

TEST_CASE("flight report: a receiver waits for the sender of its message") {
  auto const logs = logs_of(2, [](auto& comm, auto& s) {
    std::vector<float> x(4);
    if (comm.rank() == 0) comm.recv(s, std::span(x), 1, 7).wait();
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  CHECK(findings(logs).late == ranks{1});
  CHECK(test::contains(report(logs), "rank 0 waits for rank 1 since "));
}

TEST_CASE(
    "flight report: the first differing call is found, also when rings have dropped earlier "
    "calls") {
  for (std::size_t const capacity : {4U, 64U}) {
    auto const logs = logs_of(
        3,
        [](auto& comm, auto& s) {
          std::vector<float> x(8);
          for (int i = 0; i < 10; ++i) comm.barrier(s).wait();
          auto const count = comm.rank() == 2 ? 5U : 8U;
          comm.all_reduce(s, std::span(x).first(count), reduction::sum).wait();
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

TEST_CASE("flight report: no rank is blamed when all are in one call, and the report says so") {
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

TEST_CASE(
    "flight report: durations end now for a running rank, else at the last record of any rank") {
  using namespace std::chrono;
  auto const current_time = duration_cast<nanoseconds>(system_clock::now().time_since_epoch());
  flight_log log{.rank = 0, .ranks = 2, .process = ::getpid(), .machine = machine_name()};
  log.calls.push_back({.number = 0,
                       .state_since = (current_time - seconds(7)).count(),
                       .call_signature = {.kind = operation_kind::barrier},
                       .state = call_state::running});
  auto const report_text = [&] { return report(std::span(&log, 1)); };
  CHECK(test::contains(report_text(), "0 running for 7."));
  log.process = -1;
  CHECK(test::contains(report_text(), "0 running for 0.0 s"));
  log.process = ::getpid();
  log.machine = "another";
  CHECK(test::contains(report_text(), "0 running for 0.0 s"));
}

}  // namespace flight_report_test
