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
    host::stream compute, traffic;
    tensor_group<threads::communicator> const group(comm, traffic);
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

TEST_CASE("the meta device counts what would be sent along the axis") {
  auto const group = tensor_group<threads::communicator>::planned(1, 4);
  meta::stream compute;
  std::vector<float> whole(8), shard(2);
  group.all_gather(compute, std::span(whole), std::span<float const>(shard));
  group.reduce_scatter(compute, std::span(shard), std::span<float const>(whole));
  group.all_reduce(compute, std::span(whole));
  CHECK(compute.traffic().at("tensor") == 3 * 8 + 3 * 8 + 2 * 3 * 8);
  CHECK(group.rank() == 1);
  CHECK(tensor_group<threads::communicator>().alone());
}

}  // namespace axis_group_test
