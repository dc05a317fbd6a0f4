// The streams on which exchanges run, and a communicator that enqueues on streams of its own: it
// passes the conformance checks, and host threads wait for results only.
#include <doctest/doctest.h>

#include <barrier>
#include <type_traits>
#include <vector>

#include <parallel/comm/comm_stream.hpp>
#include <parallel/comm/delayed.hpp>
#include <parallel/comm/faulty.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/single.hpp>

#include "parallel/comm/suite.hpp"
#include "support/devices/guarded_device.hpp"
#include "support/devices/queued_communicator.hpp"
#include "support/devices/queued_device.hpp"

namespace comm_stream_test {

using namespace parallel;

static_assert(std::is_same_v<comm_stream<host::device, single>, host::stream>);
static_assert(std::is_same_v<comm_stream<guarded::device, any_communicator>, guarded::comm_stream>);
static_assert(
    std::is_same_v<comm_stream<queued::device, queued::any_communicator>, queued::stream>);

TEST_CASE("comm_stream: a communicator on its own streams passes the conformance checks") {
  for (int const ranks : {1, 2, 3, 5})
    CHECK_NOTHROW(queued::run(ranks, [](queued::communicator comm) {
      queued::any_communicator any(std::move(comm));
      test::comm_suite::check_all(any, 2003);
    }));
}

TEST_CASE("comm_stream: decorators work over a communicator on its own streams") {
  CHECK_NOTHROW(queued::run(3, [](queued::communicator comm) {
    auto const recorder = std::make_shared<flight_recorder>();
    recorded recorded_comm(
        delayed(faulty(std::move(comm), {}), {.longest = std::chrono::microseconds(20)}), recorder);
    test::comm_suite::check_type<float>(recorded_comm, 701);
    test::comm_suite::check_order(recorded_comm);
  }));
}

TEST_CASE("comm_stream: an abort reaches waiting ranks and later calls") {
  for (auto const wait_kind : test::comm_suite::all_waits)
    CHECK_NOTHROW(queued::run(3, [&](queued::communicator comm) {
      test::comm_suite::check_abort(std::move(comm), wait_kind);
    }));
}

TEST_CASE("comm_stream: ranks that disagree learn what differs") {
  CHECK_THROWS_WITH_AS(queued::run(2,
                                   [](queued::communicator comm) {
                                     queued::stream s;
                                     std::vector<float> x(comm.rank() == 0 ? 4 : 5);
                                     comm.all_reduce(s, std::span(x), reduction::sum).wait();
                                   }),
                       doctest::Contains("ranks disagree in count"), error);
}

TEST_CASE("comm_stream: computation and exchanges wait for each other without the host") {
  queued::device const device(2, 5);
  std::barrier enqueued(3);  // the ranks share one engine, which continues when all have checked
  queued::run(3, [&](queued::communicator comm) {
    queued::stream compute(device.compute_options()), exchanges(device.comm_options());
    auto const memory = device.allocate<std::uint64_t>(100);
    auto const group = comm.split(0);  // all ranks have come
    std::vector<request_of<queued::stream>> pending;
    device.engine().pause();
    ops::fill(compute, memory.span(), std::uint64_t{1});
    for (int i = 0; i < 5; ++i) {
      exchanges.wait(compute.record());
      pending.push_back(comm.all_reduce(exchanges, memory.span(), reduction::sum));
      pending.back().wait_on(compute);
      ops::scale(compute, memory.span(), std::uint64_t{2});
    }
    CHECK(!pending.front().ready());
    enqueued.arrive_and_wait();
    device.engine().resume();
    compute.synchronize();
    for (auto const value : memory.span()) CHECK(value == 6U * 6 * 6 * 6 * 6);
  });
}

}  // namespace comm_stream_test
