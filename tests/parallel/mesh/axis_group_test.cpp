#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <vector>

#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/mesh/axis_group.hpp>
#include <parallel/mesh/layout.hpp>

namespace axis_group_test {

using namespace parallel;
using ring = std::uint64_t;

template <class Comm>
using tensor_group = axis_group<axis::tensor, Comm>;

TEST_CASE("exchanges wait for what the compute stream did, and it waits for them") {
  threads::run(3, [](threads::communicator& comm) {
    host::stream compute, exchanges;
    tensor_group<threads::communicator> const group(comm, exchanges);
    auto const me = static_cast<ring>(comm.rank());
    std::vector<ring> whole(6), shard(2), sums(2), total(1);
    compute.enqueue([&] { shard = {10 * me + 1, 10 * me + 2}; });
    group.all_gather(compute, std::span(whole), std::span<ring const>(shard));
    compute.enqueue([&] {
      for (ring& x : whole) x *= me + 1;
    });
    group.reduce_scatter(compute, std::span(sums), std::span<ring const>(whole));
    compute.enqueue([&] { total[0] = sums[0] + sums[1]; });
    group.all_reduce(compute, std::span(total));
    compute.synchronize();
    CHECK(sums == std::vector<ring>{6 * (10 * me + 1), 6 * (10 * me + 2)});
    CHECK(total[0] == 6 * (1 + 2 + 11 + 12 + 21 + 22));
  });
}

TEST_CASE("a shift goes round while the compute stream goes on, and shards are transposed") {
  threads::run(3, [](threads::communicator& comm) {
    host::stream compute, exchanges, back;
    tensor_group<threads::communicator> const group(comm, exchanges, back);
    auto const me = static_cast<ring>(comm.rank());
    std::vector<ring> here(2), there(2), turned(3), told(3);
    ring meanwhile = 0;
    compute.enqueue([&] { here = {me, 10 * me}; });
    auto moving = group.shift(compute, std::span(there), std::span<ring const>(here));
    compute.enqueue([&] { meanwhile = here[1]; });
    moving.wait_on(compute);
    auto again = group.shift(compute, std::span(here), std::span<ring const>(there));
    again.wait_on(compute);
    compute.enqueue([&] { told = {here[1] + 1, here[1] + 2, here[1] + 3}; });
    group.all_to_all(compute, std::span(turned), std::span<ring const>(told));
    compute.synchronize();
    CHECK(meanwhile == 10 * me);
    CHECK(there == std::vector<ring>{(me + 2) % 3, 10 * ((me + 2) % 3)});
    CHECK(here[0] == (me + 1) % 3);
    CHECK(turned == std::vector<ring>{10 + me + 1, 20 + me + 1, me + 1});
  });
}

TEST_CASE("a shift without a stream for the way back is refused") {
  threads::run(2, [](threads::communicator& comm) {
    host::stream compute, exchanges;
    tensor_group<threads::communicator> const group(comm, exchanges);
    std::vector<ring> x(1), y(1);
    CHECK_THROWS_WITH_AS(
        static_cast<void>(group.shift(compute, std::span(x), std::span<ring const>(y))),
        doctest::Contains("the group along tensor needs a second stream for what comes in"), error);
  });
}

TEST_CASE("the meta device counts what would be sent along the axis") {
  auto const group = tensor_group<threads::communicator>::planned(1, 4);
  meta::stream compute;
  std::vector<float> whole(8), shard(2);
  group.all_gather(compute, std::span(whole), std::span<float const>(shard));
  group.reduce_scatter(compute, std::span(shard), std::span<float const>(whole));
  group.all_reduce(compute, std::span(whole));
  CHECK(compute.exchanges().at("tensor") == 3 * 8 + 3 * 8 + 2 * 3 * 8);
  std::vector<float> other(8);
  group.all_to_all(compute, std::span(whole), std::span<float const>(other));
  auto moving = group.shift(compute, std::span(whole), std::span<float const>(other));
  moving.wait_on(compute);
  CHECK(compute.exchanges().at("tensor") == 3 * 8 + 3 * 8 + 2 * 3 * 8 + 3 * 8 + 32);
  CHECK(group.rank() == 1);
  CHECK(tensor_group<threads::communicator>().alone());
}

}  // namespace axis_group_test
