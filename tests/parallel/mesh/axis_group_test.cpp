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

TEST_CASE(
    "axis_group: collectives wait for earlier work of the compute stream, and later work waits for "
    "them") {
  threads::run(3, [](threads::communicator& comm) {
    host::stream compute, exchanges;
    tensor_group<threads::communicator> const group(comm, exchanges);
    auto const own_rank = static_cast<ring>(comm.rank());
    std::vector<ring> whole(6), shard(2), sums(2), total(1);
    compute.enqueue([&] { shard = {10 * own_rank + 1, 10 * own_rank + 2}; });
    group.all_gather(compute, std::span(whole), std::span<ring const>(shard));
    compute.enqueue([&] {
      for (ring& x : whole) x *= own_rank + 1;
    });
    group.reduce_scatter(compute, std::span(sums), std::span<ring const>(whole));
    compute.enqueue([&] { total[0] = sums[0] + sums[1]; });
    group.all_reduce(compute, std::span(total));
    compute.synchronize();
    CHECK(sums == std::vector<ring>{6 * (10 * own_rank + 1), 6 * (10 * own_rank + 2)});
    CHECK(total[0] == 6 * (1 + 2 + 11 + 12 + 21 + 22));
  });
}

TEST_CASE(
    "axis_group: a shift runs concurrently with computation, and all_to_all transposes shards") {
  threads::run(3, [](threads::communicator& comm) {
    host::stream compute, exchanges, back;
    tensor_group<threads::communicator> const group(comm, exchanges, back);
    auto const own_rank = static_cast<ring>(comm.rank());
    std::vector<ring> first(2), second(2), transposed(3), to_transpose(3);
    ring computed_meanwhile = 0;
    compute.enqueue([&] { first = {own_rank, 10 * own_rank}; });
    auto first_shift = group.shift(compute, std::span(second), std::span<ring const>(first));
    compute.enqueue([&] { computed_meanwhile = first[1]; });
    first_shift.wait_on(compute);
    auto second_shift = group.shift(compute, std::span(first), std::span<ring const>(second));
    second_shift.wait_on(compute);
    compute.enqueue([&] { to_transpose = {first[1] + 1, first[1] + 2, first[1] + 3}; });
    group.all_to_all(compute, std::span(transposed), std::span<ring const>(to_transpose));
    compute.synchronize();
    CHECK(computed_meanwhile == 10 * own_rank);
    CHECK(second == std::vector<ring>{(own_rank + 2) % 3, 10 * ((own_rank + 2) % 3)});
    CHECK(first[0] == (own_rank + 1) % 3);
    CHECK(transposed == std::vector<ring>{10 + own_rank + 1, 20 + own_rank + 1, own_rank + 1});
  });
}

TEST_CASE("axis_group: a shift without a second stream to receive on is refused") {
  threads::run(2, [](threads::communicator& comm) {
    host::stream compute, exchanges;
    tensor_group<threads::communicator> const group(comm, exchanges);
    std::vector<ring> x(1), y(1);
    CHECK_THROWS_WITH_AS(
        static_cast<void>(group.shift(compute, std::span(x), std::span<ring const>(y))),
        doctest::Contains("the group along tensor needs a second stream to receive on"), error);
  });
}

TEST_CASE("axis_group: the meta device counts the bytes that would be sent along the axis") {
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
  CHECK(tensor_group<threads::communicator>().is_single_rank());
}

}  // namespace axis_group_test
