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

delayed_options options_of(int rank, std::chrono::microseconds longest) {
  return {static_cast<std::uint64_t>(rank) + 1, longest};
}

TEST_CASE(
    "delayed: a delayed communicator passes the conformance checks, inside and outside "
    "decorators") {
  CHECK_NOTHROW(threads::run(3, [](threads::communicator& comm) {
    auto const options = options_of(comm.rank(), 20us);
    any_communicator slow{checked{delayed{std::move(comm), options}}};
    test::comm_suite::check_all(slow, 1000);
  }));
  CHECK_NOTHROW(threads::run(4, [](threads::communicator& comm) {
    auto const options = options_of(comm.rank(), 20us);
    any_communicator slow{delayed{checked{std::move(comm)}, options}};
    test::comm_suite::check_all(slow, 1000);
  }));
}

/// The duration of each of `calls` calls in whole milliseconds, with delays of up to 20 ms.
std::vector<std::int64_t> call_times(std::uint64_t seed, int calls) {
  delayed comm(single(), {seed, 20ms});
  auto group = comm.split(0, "shard");
  host::stream s;
  std::vector<float> x(1);
  std::vector<std::int64_t> out;
  for (int i = 0; i < calls; ++i) {
    auto const begin = std::chrono::steady_clock::now();
    group.all_reduce(s, std::span(x), reduction::sum).wait();
    out.push_back((std::chrono::steady_clock::now() - begin) / 1ms);
  }
  return out;
}

TEST_CASE("delayed: every call waits for a time that differs by call and by seed") {
  auto const first_seed = call_times(1, 12);
  auto const second_seed = call_times(2, 12);
  std::int64_t sum = 0;
  std::int64_t differences = 0;
  for (std::size_t i = 0; i < first_seed.size(); ++i) {
    sum += first_seed[i];
    differences += first_seed[i] > second_seed[i] + 1 || second_seed[i] > first_seed[i] + 1 ? 1 : 0;
  }
  CHECK(sum >= 60);  // 12 sleeps of 10 ms on average; half of that is required
  CHECK(differences >= 4);
}

}  // namespace delayed_test
