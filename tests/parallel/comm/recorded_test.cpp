#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/comm/threads/run.hpp>

#include "parallel/comm/suite.hpp"
#include "parallel/comm/traffic.hpp"

namespace recorded_test {

using namespace parallel;

TEST_CASE(
    "recorded: a recorded communicator passes the conformance checks, erased and checked too") {
  CHECK_NOTHROW(threads::run(3, [](threads::communicator& comm) {
    auto const recorder = std::make_shared<flight_recorder>(8);
    any_communicator recorded_comm{recorded{checked{std::move(comm)}, recorder}};
    test::comm_suite::check_all(recorded_comm, 1000);
    CHECK(recorder->calls().size() == 8);
  }));
}

TEST_CASE("recorded: calls are counted by axis and operation, and listed in order") {
  threads::run(4, [](threads::communicator& comm) {
    auto const recorder = std::make_shared<flight_recorder>();
    recorded recorded_comm(std::move(comm), recorder);
    auto pair = recorded_comm.split(recorded_comm.rank() / 2, "tensor");
    host::stream s;
    std::vector<float> x(6), y(12);
    pair.all_reduce(s, std::span(x), reduction::sum).wait();
    pair.all_gather(s, std::span(y), std::span<float const>(x)).wait();
    recorded_comm.barrier(s).wait();
    pair.all_reduce(s, std::span(x), reduction::max).wait();
    auto const totals = recorder->totals();
    REQUIRE(totals.size() == 4);
    CHECK(totals.at({"", operation_kind::split}).calls == 1);
    CHECK(totals.at({"", operation_kind::split}).payload == 0);
    CHECK(totals.at({"tensor", operation_kind::all_reduce}).calls == 2);
    CHECK(totals.at({"tensor", operation_kind::all_reduce}).payload == 2 * 24);
    CHECK(totals.at({"tensor", operation_kind::all_gather}).payload == 48);
    CHECK(totals.at({"", operation_kind::barrier}).calls == 1);
    auto const text = recorder->text(2);
    CHECK(text.find("3 done since 0.") == 0);
    CHECK(text.find("s: barrier at recorded_test.cpp:") != std::string::npos);
    CHECK(text.find("\n4 done since 0.") != std::string::npos);
    CHECK(text.find("all_reduce(max) of 6 f32 over tensor at recorded_test") != std::string::npos);
  });
}

TEST_CASE("recorded: a split in which a rank waits is listed, also as its first call") {
  auto const recorder = std::make_shared<flight_recorder>();
  CHECK_THROWS_AS(
      threads::run(2,
                   [&](threads::communicator& comm) {
                     if (comm.rank() == 1) return;  // never comes
                     static_cast<void>(recorded(std::move(comm), recorder).split(3, "tensor"));
                   },
                   {.deadline = std::chrono::milliseconds(20)}),
      error);
  CHECK(recorder->text().starts_with("0 running for 0."));
  CHECK(recorder->text().ends_with(" s: split into color 3\n"));
}

TEST_CASE("recorded: an exchange of signatures is listed with the calls") {
  threads::run(2, [](threads::communicator& comm) {
    auto const recorder = std::make_shared<flight_recorder>();
    recorded recorded_comm(std::move(comm), recorder);
    auto const exchange = recorded_comm.open_exchange();
    CHECK(recorder->text().starts_with("0 waiting for "));
    CHECK(exchange({.count = 1}).size() == 2);
    auto const text = recorder->text();
    CAPTURE(text);
    CHECK(text.starts_with("0 done since "));
    CHECK(text.ends_with(" s: agreement on what comes next\n"));
  });
}

TEST_CASE("recorded: threads count the bytes that a ring sends, checked and erased too") {
  CHECK_NOTHROW(test::comm_traffic::check_traffic(single()));
  for (int const n : {1, 2, 3, 4, 5, 8})
    CHECK_NOTHROW(threads::run(n, [](threads::communicator& comm) {
      test::comm_traffic::check_traffic(any_communicator{checked{std::move(comm)}});
    }));
}

TEST_CASE("recorded: a failed call is listed as running, the calls after it as waiting") {
  auto const recorder = std::make_shared<flight_recorder>();
  CHECK_THROWS_AS(threads::run(2,
                               [&](threads::communicator& comm) {
                                 bool const first = comm.rank() == 0;
                                 recorded recorded_comm(
                                     std::move(comm),
                                     first ? recorder : std::make_shared<flight_recorder>());
                                 host::stream s;
                                 std::vector<float> x(first ? 6 : 5);
                                 auto a = recorded_comm.all_reduce(s, std::span(x), reduction::sum);
                                 auto b = recorded_comm.barrier(s);
                                 a.wait();
                               }),
                  error);
  auto const text = recorder->text();
  CAPTURE(text);
  CHECK(text.find("0 running for ") == 0);
  CHECK(text.find("\n1 waiting for ") != std::string::npos);
}

}  // namespace recorded_test
