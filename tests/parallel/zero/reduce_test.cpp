// Gradients of several units in one call along each axis.
#include <deque>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/zero/reduce.hpp>

namespace reduce_test {

using namespace parallel;
using parallel::index;
using ring = std::uint64_t;

struct layer {
  parameter<ring, 1> weight;
  void visit_parameters(auto&& visit) { visit(weight); }
};

/// The sums that ranks of 2 shards x 2 replicas own after units have been reduced as a bucket, or
/// each alone.
std::vector<ring> reduce(bool together) {
  std::vector<ring> out;
  threads::run(4, [&](threads::communicator& world) {
    int const rank = world.rank();
    auto shards = world.split(rank / 2), replicas = world.split(rank % 2);
    host::device device;
    host::stream exchanges;
    std::deque<layer> layers;
    std::deque<zero::partitioned_unit<ring>> units;
    for (index const size : {40, 7, 130}) {
      auto& parameters = layers.emplace_back();
      parameters.weight = {concat("w", size), {size}};
      units.emplace_back(
          unit<ring>("unit", parameters, 4), zero::level::optimizer,
          zero::unit_position{.shard = rank % 2, .shards = 2, .replica = rank / 2, .replicas = 2},
          1, device);
      for (index i = 0; i < size; ++i)
        parameters.weight.gradient_data[i] =
            static_cast<ring>(1 << (8 * rank)) * static_cast<ring>(i % 8);
    }
    zero::shard_groups<threads::communicator> const axes{&shards, &shards, &replicas, nullptr};
    std::vector<request> requests;
    std::vector<zero::unit_gradients<ring>> bucket;
    for (auto const& unit : units)
      if (together)
        bucket.push_back({&unit, 0});
      else
        zero::reduce(unit, axes, exchanges, 0, requests);
    zero::reduce<ring>(bucket, axes, exchanges, requests);
    CHECK(requests.size() == (together ? 2 : 6));  // one along each axis, or for each unit
    for (auto& request : requests) request.wait();
    if (rank > 1) return;  // replicas have the same sums
    for (int turn = 0; turn < 2; ++turn) {
      shards.barrier(exchanges).wait();
      if (turn != rank) continue;
      for (auto const& unit : units)
        for (ring const sum : unit.owned_gradients(0)) out.push_back(sum);
    }
  });
  return out;
}

TEST_CASE("reduce: a bucket is one call along an axis and gives the sums of its units") {
  auto const together = reduce(true);
  CHECK(together == reduce(false));
  ring const sum_of_ranks = 0x01010101;
  std::vector<ring> expected;
  for (index const half : {0, 1})
    for (auto const& [size, padded] : {std::pair<index, index>{40, 128}, {7, 128}, {130, 256}})
      for (index i = half * padded / 2; i < (half + 1) * padded / 2; ++i)
        expected.push_back(i < size ? sum_of_ranks * static_cast<ring>(i % 8) : 0);
  CHECK(together == expected);
}

}  // namespace reduce_test
