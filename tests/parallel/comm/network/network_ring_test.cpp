#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include <parallel/comm/network/network_ring.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>

namespace network_ring_test {

using namespace parallel;

TEST_CASE("network ring: ranks with one local rank form a ring over the machines") {
  CHECK(local_ranks({"a", "b", "a", "b"}) == std::vector<int>{0, 0, 1, 1});
  CHECK(ranks_before({"a", "b", "a", "b"}) == std::vector<int>{1, 0, 3, 2});
  CHECK(ranks_before({"a", "b", "c"}) == std::vector<int>{2, 0, 1});
  CHECK(ranks_before({"a", "a", "b"}) == std::vector<int>{2, -1, 0});
  CHECK(ranks_before({"a", "a"}) == std::vector<int>{-1, -1});
}

TEST_CASE("network ring: a member exchanges with one other member in a round") {
  for (int n = 2; n < 10; ++n)
    for (int i = 0; i < n; ++i) {
      CHECK(ring_round(i, n) != ring_round((i + 1) % n, n));
      CHECK(ring_round(i, n) < (n % 2 == 1 ? 3 : 2));
    }
}

TEST_CASE("network ring: a slow rank is told from a link that is slow in one direction") {
  std::vector<int> const three{2, 0, 1};
  CHECK(slow_ranks(three, {100, 101, 102}).empty());
  CHECK(slow_ranks(three, {100, 51, 102}).empty());
  // The link of rank 2 is slow: what it sends to 0, and what 1 sends to it.
  CHECK(slow_ranks(three, {4, 100, 5}) == std::vector<slow_rank>{{2, -1, 5, 100}});
  CHECK(slow_ranks(three, {4, 100, 99}) == std::vector<slow_rank>{{0, 2, 4, 100}});
  CHECK(slow_ranks({1, 0}, {4, 5}).empty());  // of two ranks, neither is the median
  CHECK(slow_ranks({1, 0}, {4, 90}) == std::vector<slow_rank>{{0, 1, 4, 90}});
  // Two neighbours of five are slow; rank 5 is in no ring.
  CHECK(slow_ranks({4, 0, 1, 2, 3, -1}, {100, 4, 3, 5, 100, 0}) ==
        std::vector<slow_rank>{{1, -1, 4, 100}, {2, -1, 5, 100}});
  CHECK(slow_ranks({-1, -1}, {0, 0}).empty());
}

TEST_CASE("network ring: sizes grow while the last call took little time") {
  growing_size size(std::size_t{1} << 20, 0.1);
  CHECK(size.bytes() == 16 << 10);
  CHECK(size.grow(0.001));
  CHECK(size.bytes() == 64 << 10);
  CHECK(size.grow(0.024));
  CHECK_FALSE(size.grow(0.026));
  CHECK(size.bytes() == 256 << 10);
  CHECK(size.grow(0.001));
  CHECK(size.bytes() == 1 << 20);
  CHECK_FALSE(size.grow(0));
  CHECK(growing_size(100, 1).bytes() == 100);
  CHECK(growing_size(1 << 30, 1, 1 << 20).bytes() == 1 << 20);
}

TEST_CASE("network ring: every rank measures the rate at which data arrives") {
  for (int const ranks : {1, 2, 3, 4, 5}) {
    std::vector<double> rates(static_cast<std::size_t>(ranks));
    threads::run(ranks, [&](threads::communicator& comm) {
      host::device device;
      rates[static_cast<std::size_t>(comm.rank())] =
          arriving_rate(device, comm, std::size_t{1} << 17, 0.1);
    });
    CAPTURE(ranks);
    CHECK(std::ranges::all_of(rates, [&](double rate) { return (rate > 0) == (ranks > 1); }));
  }
}

}  // namespace network_ring_test
