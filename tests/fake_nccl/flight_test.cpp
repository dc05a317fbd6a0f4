// Flight recorders hold the calls of ranks over NCCL as well as those over the control
// communicator; the report says which rank diverged first, and which rank waits for which.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/call_group.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/flight/flight_report.hpp>
#include <parallel/comm/nccl/connect.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/conformance/values.hpp>

#include "fake_nccl/ranks.hpp"
#include "parallel/support/files.hpp"

namespace fake_nccl_flight_test {

using fake_nccl::rank_gpu;
using parallel::any_communicator;
using parallel::call_state;
using parallel::flight_log;
using parallel::reduction;
using parallel::conformance::message_of;
using test::contains;

/// The objects of one rank.
struct rank {
  any_communicator& control;
  parallel::cuda::device& device;
  parallel::nccl::communicator& comm;
  parallel::flight_recorder& recorder;
};
using rank_program = std::function<void(rank& self)>;

/// The logs in the recorders' files, one for each rank, after the ranks ran `program`.
std::vector<flight_log> logs_of(int ranks, rank_program const& program,
                                std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
  fake_cuda::restart({.devices = ranks, .peers = false});
  fake_nccl::restart();
  test::temporary_folder const folder;
  std::vector<std::string> messages(static_cast<std::size_t>(ranks));
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    int const number = comm.rank();
    auto const recorder = std::make_shared<parallel::flight_recorder>(
        parallel::flight_ring(parallel::flight_file(folder.path(), number), number, ranks));
    any_communicator control(parallel::recorded(parallel::checked(std::move(comm)), recorder));
    messages[static_cast<std::size_t>(number)] = message_of([&] {
      parallel::cuda::device device({.device = number});
      auto connected = parallel::nccl::connect(
          control, device,
          {.deadline = deadline, .look_every = std::chrono::milliseconds(5), .recorder = recorder});
      try {
        rank self{control, device, *connected, *recorder};
        program(self);
      } catch (std::exception const& problem) {
        control.abort(problem.what());
        throw;
      }
    });
  });
  CHECK(fake_nccl::live_communicators() == 0);
  return parallel::read_flights(folder.path());
}

/// The calls over NCCL as text, without numbers, times and call sites.
std::vector<std::string> calls_of(flight_log const& log) {
  std::vector<std::string> out;
  for (auto const& call : log.calls) {
    if (!call.call_signature.axis_name().starts_with("NCCL")) continue;
    auto text = parallel::describe(call.call_signature);
    constexpr char const* names[] = {"waiting", "running", "done"};
    out.push_back(parallel::concat(names[static_cast<std::size_t>(call.state)], ": ",
                                   text.substr(0, text.find(" at "))));
  }
  return out;
}

TEST_CASE("flight recorder over NCCL: completed calls, also of groups, have axis and operation") {
  auto const logs = logs_of(2, [](rank& self) {
    rank_gpu n{self.device};
    auto part = self.comm.split(0, "shard");
    part.all_reduce(n.s, n.x.span(), reduction::sum).wait();
    parallel::call_group group(part);
    group.all_reduce(n.s, n.x.span().first(3), reduction::max).wait();
    group.broadcast(n.s, n.x.span().subspan(3, 2), 1).wait();
    group.end(n.s).wait();
    self.comm.barrier(n.s).wait();
  });
  REQUIRE(logs.size() == 2);
  for (auto const& log : logs) {
    auto calls = calls_of(log);
    REQUIRE(calls.size() == 6);
    CHECK(calls[0] == "done: all_gather of 256 u8 over NCCL");  // by the split
    calls.erase(calls.begin());
    CHECK(calls == std::vector<std::string>{
                       "done: split into color 0",
                       "done: all_reduce(sum) of 8 f32 over NCCL shard",
                       "done: all_reduce(max) of 3 f32 over NCCL shard",
                       "done: broadcast of 2 f32 from root 1 over NCCL shard",
                       "done: barrier over NCCL",
                   });
  }
  auto const text = parallel::report(logs);
  CHECK(contains(text, "no rank waited for another, and all did the same"));
  CHECK(contains(text, "barrier over NCCL at flight_test.cpp:"));
}

TEST_CASE("flight recorder over NCCL: messages name the peer's world rank") {
  auto const logs = logs_of(4, [](rank& self) {
    rank_gpu n{self.device};
    auto part = self.comm.split(self.comm.rank() / 2, "pipeline");
    parallel::connect_neighbours(part);
    if (part.rank() == 0)
      part.send(n.s, n.x.span(), 1).wait();
    else
      part.recv(n.s, n.x.span(), 0).wait();
  });
  REQUIRE(logs.size() == 4);
  for (auto const& log : logs) REQUIRE(!calls_of(log).empty());
  CHECK(calls_of(logs[2]).back() == "done: send of 8 f32 to rank 3, tag 0 over NCCL pipeline");
  CHECK(calls_of(logs[3]).back() == "done: recv of 8 f32 from rank 2, tag 0 over NCCL pipeline");
}

TEST_CASE("flight report over NCCL: names the first divergence of the ranks' calls") {
  auto const logs = logs_of(
      3,
      [](rank& self) {
        rank_gpu n{self.device};
        parallel::host::stream host_stream;
        auto part = self.comm.split(0, "shard");
        part.all_reduce(n.s, n.x.span(), reduction::sum).wait();
        self.control.barrier(host_stream).wait();  // the ranks agree here
        auto const count = static_cast<std::size_t>(self.comm.rank() == 1 ? 7 : 8);
        part.all_reduce(n.s, n.x.span().first(count), reduction::sum).wait();
        self.comm.barrier(n.s).wait();
      },
      std::chrono::milliseconds(300));
  auto const text = parallel::report(logs);
  auto const begin = text.find("first divergence: ");
  REQUIRE(begin != std::string::npos);
  auto const divergence = text.substr(begin, text.find('\n', begin) - begin);
  CHECK(contains(divergence, "all_reduce(sum) of 8 f32 over NCCL shard at flight_test.cpp:"));
  CHECK(contains(divergence, "all_reduce(sum) of 7 f32 over NCCL shard at flight_test.cpp:"));
  CHECK(contains(divergence, "rank 1"));
}

TEST_CASE("flight report over NCCL: names the absent rank, and aborted calls are not done") {
  auto const logs = logs_of(
      2,
      [](rank& self) {
        rank_gpu n{self.device};
        auto part = self.comm.split(0, "tensor");
        part.all_reduce(n.s, n.x.span(), reduction::sum).wait();
        while (self.control.rank() == 1 && !self.comm.abort_reason())
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        auto first = part.all_reduce(n.s, n.x.span().first(5), reduction::sum);
        auto second = part.all_reduce(n.s, n.x.span().first(6), reduction::sum);
        first.wait();
        second.wait();
      },
      std::chrono::milliseconds(300));
  REQUIRE(logs.size() == 2);
  auto const calls = calls_of(logs[0]);
  REQUIRE(calls.size() > 3);
  CHECK(calls[calls.size() - 3] == "done: all_reduce(sum) of 8 f32 over NCCL tensor");
  CHECK(calls[calls.size() - 2] == "running: all_reduce(sum) of 5 f32 over NCCL tensor");
  CHECK(calls[calls.size() - 1] == "waiting: all_reduce(sum) of 6 f32 over NCCL tensor");
  auto const text = parallel::report(logs);
  CHECK(contains(text, "rank 0 waits for rank 1 since"));
  CHECK(contains(text, "in all_reduce(sum) of 5 f32 over NCCL tensor at flight_test.cpp:"));
  CHECK(contains(text, "late: rank 1 was in no call"));
}

TEST_CASE("flight recorder over NCCL: a call after unfinished work of its stream is waiting") {
  static_cast<void>(logs_of(2, [](rank& self) {
    rank_gpu n{self.device};
    parallel::host::stream host_stream;
    self.comm.all_reduce(n.s, n.x.span(), reduction::sum).wait();
    auto const go = std::make_shared<std::atomic<bool>>(false);
    fake_cuda::enqueue(n.s.get(), "compute", [go] {
      while (!*go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    auto request = self.comm.all_reduce(n.s, n.x.span().first(5), reduction::sum);
    auto const state = [&] { return self.recorder.calls().back().state; };
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(state() == call_state::waiting);
    self.control.barrier(host_stream).wait();
    if (self.control.rank() == 0) *go = true;
    if (self.control.rank() == 0) {
      auto const runs = [&] {
        auto const calls = self.recorder.calls();
        return calls[calls.size() - 2].state == call_state::running;
      };
      for (int i = 0; i < 2000 && !runs(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      CHECK(runs());
    }
    self.control.barrier(host_stream).wait();
    *go = true;
    request.wait();
  }));
}

}  // namespace fake_nccl_flight_test
