// The communicators of a training mesh: who is connected with whom, and where a rank's data stands.
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/threads/run.hpp>
#include <parallel/train/groups.hpp>
#include <parallel/zero/stage.hpp>

namespace groups_test {
namespace {

using parallel::training_layout;
using parallel::threads::communicator;
namespace axis = parallel::axis;
namespace zero = parallel::zero;
using groups = parallel::train::training_groups<communicator>;

/// World ranks of those that `comm` connects, by their rank in it.
std::vector<int> members(communicator& comm, int world_rank) {
  std::vector<int> out(static_cast<std::size_t>(comm.size()));
  parallel::host::stream s;
  int const mine[] = {world_rank};
  comm.all_gather(s, std::span(out), std::span<int const>(mine)).wait();
  return out;
}

TEST_CASE("communicators connect the ranks that differ along their axes alone") {
  // rank = (((p * 2 + r) * 2 + s) * 1 + c) * 2 + t
  auto const shape = training_layout{}
                         .with<axis::pipeline>(2)
                         .with<axis::replicate>(2)
                         .with<axis::shard>(2)
                         .with<axis::tensor>(2);
  parallel::threads::run(16, [&](communicator& world) {
    int const me = world.rank();
    int const t = me % 2, s = me / 2 % 2, r = me / 4 % 2, p = me / 8;
    groups g(world.split(0), shape);
    auto const at = [&](int pp, int rr, int ss, int tt) {
      return ((pp * 2 + rr) * 2 + ss) * 2 + tt;
    };
    using list = std::vector<int>;
    CHECK(members(g.pipeline, me) == list{at(0, r, s, t), at(1, r, s, t)});
    CHECK(members(g.replicas, me) == list{at(p, 0, s, t), at(p, 1, s, t)});
    CHECK(members(g.shards, me) == list{at(p, r, 0, t), at(p, r, 1, t)});
    CHECK(members(g.gathers, me) == members(g.shards, me));
    CHECK(members(g.tensor, me) == list{at(p, r, s, 0), at(p, r, s, 1)});
    CHECK(members(g.context, me) == list{me});
    CHECK(g.world().size() == 16);
    CHECK(g.shape() == shape);
    CHECK(g.place() ==
          zero::unit_place{.shard = s, .shards = 2, .replica = r, .replicas = 2, .tensor = t});
    CHECK(g.data_rank() == r * 2 + s);
    CHECK(g.data_ranks() == 4);
    auto const axes = g.axes();
    CHECK(axes.shards == &g.shards);
    CHECK(axes.gathers == &g.gathers);
    CHECK(axes.replicas == &g.replicas);
  });
}

TEST_CASE("parts of a sequence are replicas of the parameters") {
  auto const shape =
      training_layout{}.with<axis::replicate>(2).with<axis::shard>(2).with<axis::context>(3);
  parallel::threads::run(12, [&](communicator& world) {
    int const me = world.rank();
    groups g(world.split(0), shape);
    int const c = me % 3, s = me / 3 % 2, r = me / 6;
    CHECK(g.place() ==
          zero::unit_place{.shard = s, .shards = 2, .replica = r * 3 + c, .replicas = 6});
    std::vector<int> expected;
    for (int rr = 0; rr < 2; ++rr)
      for (int cc = 0; cc < 3; ++cc) expected.push_back((rr * 2 + s) * 3 + cc);
    CHECK(members(g.replicas, me) == expected);
    CHECK(members(g.context, me) == std::vector<int>{me - c, me - c + 1, me - c + 2});
  });
}

TEST_CASE("neighbours that share parameters get a communicator, once per number") {
  parallel::threads::run(12, [&](communicator& world) {
    int const me = world.rank();
    groups g(world.split(0), training_layout{}.with<axis::shard>(2).with<axis::tensor>(6));
    for (int const ranks : {1, 2, 3, 2}) g.connect_copies(ranks);
    auto const axes = g.axes();
    CHECK(axes.copies->size() == 2);  // none for 1
    for (int const ranks : {2, 3}) {
      std::vector<int> expected;
      for (int i = 0; i < ranks; ++i) expected.push_back(me / ranks * ranks + i);
      CHECK(members(axes.copies->at(ranks), me) == expected);
      CHECK(axes.addends({.ranks = ranks, .partial = true}) == &axes.copies->at(ranks));
      CHECK(axes.addends({.ranks = ranks, .partial = false}) == nullptr);
    }
    CHECK(axes.addends({.ranks = 1, .partial = true}) == nullptr);
    CHECK_THROWS_AS(g.connect_copies(4), parallel::error);
    CHECK_THROWS_AS(g.connect_copies(0), parallel::error);
  });
}

TEST_CASE("without a layout ranks are replicas, or shards of a ZeRO stage") {
  parallel::threads::run(3, [&](communicator& world) {
    for (auto const stage : {zero::stage::none, zero::stage::optimizer, zero::stage::gradients,
                             zero::stage::parameters}) {
      groups g(world.split(0), stage);
      CHECK(g.place() == zero::data_place(stage, world.rank(), 3));
      CHECK((stage == zero::stage::none ? g.replicas : g.shards).size() == 3);
      CHECK((stage == zero::stage::none ? g.shards : g.replicas).size() == 1);
    }
  });
}

TEST_CASE("a layout that does not fit the ranks is refused on every one") {
  parallel::threads::run(3, [&](communicator& world) {
    CHECK_THROWS_AS(groups(world.split(0), training_layout{}.with<axis::shard>(2)),
                    parallel::error);
  });
}

}  // namespace
}  // namespace groups_test
