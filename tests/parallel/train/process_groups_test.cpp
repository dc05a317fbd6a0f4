// The communicators of a training mesh: the ranks that each connects, and the position of a rank's
// data.
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/threads/run.hpp>
#include <parallel/train/process_groups.hpp>
#include <parallel/zero/level.hpp>

namespace groups_test {
namespace {

using parallel::training_layout;
using parallel::threads::communicator;
namespace axis = parallel::axis;
namespace zero = parallel::zero;
using groups = parallel::train::process_groups<communicator>;

/// The world ranks that `comm` connects, in the order of their ranks in it.
std::vector<int> members(communicator& comm, int world_rank) {
  std::vector<int> out(static_cast<std::size_t>(comm.size()));
  parallel::host::stream s;
  int const own_number[] = {world_rank};
  comm.all_gather(s, std::span(out), std::span<int const>(own_number)).wait();
  return out;
}

TEST_CASE("process groups: communicators connect the ranks that differ along their axes only") {
  // rank = (((p * 2 + r) * 2 + s) * 1 + c) * 2 + t
  auto const shape = training_layout{}
                         .with_degree<axis::pipeline>(2)
                         .with_degree<axis::replicate>(2)
                         .with_degree<axis::shard>(2)
                         .with_degree<axis::tensor>(2);
  parallel::threads::run(16, [&](communicator& world) {
    int const own_rank = world.rank();
    int const t = own_rank % 2, s = own_rank / 2 % 2, r = own_rank / 4 % 2, p = own_rank / 8;
    groups g(world.split(0), shape, zero::level::gradients);
    auto const rank_at = [&](int pp, int rr, int ss, int tt) {
      return ((pp * 2 + rr) * 2 + ss) * 2 + tt;
    };
    using list = std::vector<int>;
    CHECK(members(g.pipeline, own_rank) == list{rank_at(0, r, s, t), rank_at(1, r, s, t)});
    CHECK(members(g.replicas, own_rank) == list{rank_at(p, 0, s, t), rank_at(p, 1, s, t)});
    CHECK(members(g.shards, own_rank) == list{rank_at(p, r, 0, t), rank_at(p, r, 1, t)});
    CHECK(members(g.gathers, own_rank) == members(g.shards, own_rank));
    CHECK(members(g.tensor, own_rank) == list{rank_at(p, r, s, 0), rank_at(p, r, s, 1)});
    CHECK(members(g.context, own_rank) == list{own_rank});
    CHECK(g.world().size() == 16);
    CHECK(g.shape() == shape);
    CHECK(g.place() ==
          zero::unit_position{.shard = s, .shards = 2, .replica = r, .replicas = 2, .tensor = t});
    CHECK(g.data_rank() == r * 2 + s);
    CHECK(g.data_ranks() == 4);
    auto const axes = g.axes();
    CHECK(axes.shards == &g.shards);
    CHECK(axes.gathers == &g.gathers);
    CHECK(axes.replicas == &g.replicas);
  });
}

TEST_CASE("process groups: context ranks hold shards of the parameters, or replicas without ZeRO") {
  auto const shape = training_layout{}
                         .with_degree<axis::replicate>(2)
                         .with_degree<axis::shard>(2)
                         .with_degree<axis::context>(3);
  parallel::threads::run(12, [&](communicator& world) {
    int const own_rank = world.rank();
    int const c = own_rank % 3, s = own_rank / 3 % 2, r = own_rank / 6;
    std::vector<int> same_position,
        same_replica;  // the six ranks of a replica, which differ in shard or context
    for (int rr = 0; rr < 2; ++rr) same_position.push_back(rr * 6 + own_rank % 6);
    for (int i = 0; i < 6; ++i) same_replica.push_back(r * 6 + i);
    for (auto const level :
         {zero::level::optimizer, zero::level::gradients, zero::level::parameters}) {
      groups g(world.split(0), shape, level);
      CHECK(g.place() ==
            zero::unit_position{.shard = s * 3 + c, .shards = 6, .replica = r, .replicas = 2});
      CHECK(members(g.shards, own_rank) == same_replica);
      CHECK(members(g.gathers, own_rank) == same_replica);
      CHECK(members(g.replicas, own_rank) == same_position);
      CHECK(g.shards.name() == "shard x context");
      CHECK(g.data_rank() == r * 2 + s);  // they read the same sequences
      CHECK(g.data_ranks() == 4);
    }
    auto const plain =
        training_layout{}.with_degree<axis::replicate>(4).with_degree<axis::context>(3);
    groups g(world.split(0), plain, zero::level::none);
    CHECK(g.place() == zero::unit_position{.replica = own_rank, .replicas = 12});
    CHECK(g.shards.size() == 1);
    std::vector<int> every_rank(12);
    for (int i = 0; i < 12; ++i) every_rank[static_cast<std::size_t>(i)] = i;
    CHECK(members(g.replicas, own_rank) == every_rank);
    CHECK(members(g.context, own_rank) ==
          std::vector<int>{own_rank - c, own_rank - c + 1, own_rank - c + 2});
  });
}

TEST_CASE("process groups: ranks that share parameters get one communicator for each group size") {
  parallel::threads::run(12, [&](communicator& world) {
    int const own_rank = world.rank();
    groups g(world.split(0),
             training_layout{}.with_degree<axis::shard>(2).with_degree<axis::tensor>(6),
             zero::level::optimizer);
    for (int const ranks : {1, 2, 3, 2}) g.connect_replicas(ranks);
    auto const axes = g.axes();
    CHECK(axes.replication->size() == 2);  // none for 1
    for (int const ranks : {2, 3}) {
      std::vector<int> expected;
      for (int i = 0; i < ranks; ++i) expected.push_back(own_rank / ranks * ranks + i);
      CHECK(members(axes.replication->at(ranks), own_rank) == expected);
      CHECK(axes.addends({.ranks = ranks, .partial = true}) == &axes.replication->at(ranks));
      CHECK(axes.addends({.ranks = ranks, .partial = false}) == nullptr);
    }
    CHECK(axes.addends({.ranks = 1, .partial = true}) == nullptr);
    CHECK_THROWS_AS(g.connect_replicas(4), parallel::error);
    CHECK_THROWS_AS(g.connect_replicas(0), parallel::error);
  });
}

TEST_CASE("process groups: without a layout ranks are replicas, or shards of a ZeRO stage") {
  parallel::threads::run(3, [&](communicator& world) {
    for (auto const level : {zero::level::none, zero::level::optimizer, zero::level::gradients,
                             zero::level::parameters}) {
      groups g(world.split(0), level);
      CHECK(g.place() == zero::data_position(level, world.rank(), 3));
      CHECK((level == zero::level::none ? g.replicas : g.shards).size() == 3);
      CHECK((level == zero::level::none ? g.shards : g.replicas).size() == 1);
    }
  });
}

TEST_CASE(
    "process groups: a layout that does not fit the number of ranks is refused on every rank") {
  parallel::threads::run(3, [&](communicator& world) {
    CHECK_THROWS_AS(groups(world.split(0), training_layout{}.with_degree<axis::shard>(2),
                           zero::level::optimizer),
                    parallel::error);
  });
}

}  // namespace
}  // namespace groups_test
