#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/delayed.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/comm/threads/run.hpp>

#include "parallel/comm/suite.hpp"

namespace delayed_test {

using namespace parallel;
using namespace std::chrono_literals;

delayed_options late(int rank, std::chrono::microseconds longest) {
  return {static_cast<std::uint64_t>(rank) + 1, longest};
}

TEST_CASE("a delayed communicator passes the suite, under other decorators and over them") {
  CHECK_NOTHROW(threads::run(3, [](threads::communicator& comm) {
    auto const options = late(comm.rank(), 20us);
    any_communicator slow{checked{delayed{std::move(comm), options}}};
    test::comm_suite::check_all(slow, 1000);
  }));
  CHECK_NOTHROW(threads::run(4, [](threads::communicator& comm) {
    auto const options = late(comm.rank(), 20us);
    any_communicator slow{delayed{checked{std::move(comm)}, options}};
    test::comm_suite::check_all(slow, 1000);
  }));
}

/// How long the i-th of `calls` calls took, in steps of a millisecond, with a delay up to 20.
std::vector<std::int64_t> times(std::uint64_t seed, int calls) {
  delayed comm(single(), {seed, 20ms});
  auto part = comm.split(0, "shard");
  host::stream s;
  std::vector<float> x(1);
  std::vector<std::int64_t> out;
  for (int i = 0; i < calls; ++i) {
    auto const begin = std::chrono::steady_clock::now();
    part.all_reduce(s, std::span(x), reduction::sum).wait();
    out.push_back((std::chrono::steady_clock::now() - begin) / 1ms);
  }
  return out;
}

TEST_CASE("every call waits, for times that differ by call and by seed") {
  auto const one = times(1, 12);
  auto const other = times(2, 12);
  std::int64_t sum = 0;
  std::int64_t differences = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    sum += one[i];
    differences += one[i] > other[i] + 1 || other[i] > one[i] + 1 ? 1 : 0;
  }
  CHECK(sum >= 60);  // 12 sleeps of 10 ms in the mean, and 6 more
  CHECK(differences >= 4);
}

}  // namespace delayed_test
