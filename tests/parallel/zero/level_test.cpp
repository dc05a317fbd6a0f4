#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/zero/level.hpp>

namespace stage_test {
namespace {

using parallel::index;
using parallel::zero::range;
using parallel::zero::shard_of;
using parallel::zero::unit_position;
namespace zero = parallel::zero;

static_assert(shard_of(96, 1, 3) == range{32, 64});

TEST_CASE("ZeRO levels: shards are equal, adjacent, and cover the segment") {
  for (index const ranks : {1, 2, 3, 5, 8}) {
    index const size = 32 * ranks * 7;
    index end = 0;
    for (index rank = 0; rank < ranks; ++rank) {
      range const shard = shard_of(size, rank, ranks);
      CHECK(shard.begin == end);
      CHECK(shard.size() == size / ranks);
      end = shard.end;
    }
    CHECK(end == size);
  }
  CHECK(shard_of(0, 2, 3).size() == 0);
}

TEST_CASE(
    "ZeRO levels: every element has one primary rank, for all numbers of shards, replicas and "
    "tensor copies") {
  for (index const shards : {1, 2, 3, 4})
    for (index const replicas : {1, 2, 3, 5})
      for (index const tensor : {1, 2, 4, 6})
        for (int copies = 1; copies <= tensor; ++copies) {
          if (tensor % copies != 0) continue;
          CAPTURE(shards);
          CAPTURE(replicas);
          CAPTURE(tensor);
          CAPTURE(copies);
          index const size = shards * replicas * 4;
          // ranks t with the same t / copies hold the same slice
          std::vector<int> counts(static_cast<std::size_t>(size * (tensor / copies)));
          for (unit_position position{.shards = shards, .replicas = replicas};
               position.tensor < tensor; ++position.tensor)
            for (position.shard = 0; position.shard < shards; ++position.shard)
              for (position.replica = 0; position.replica < replicas; ++position.replica) {
                range const owned = position.owned(size);
                CHECK(owned == shard_of(size, position.shard, shards));
                range const primary = position.primary_range(size, copies);
                CHECK((owned.begin <= primary.begin && primary.end <= owned.end));
                for (index i = primary.begin; i < primary.end; ++i)
                  ++counts[static_cast<std::size_t>(position.tensor / copies * size + i)];
              }
          CHECK(std::ranges::count(counts, 1) == std::ssize(counts));
        }
}

TEST_CASE("ZeRO levels: without ZeRO ranks are replicas, at every level of it they are shards") {
  CHECK(zero::data_position(zero::level::none, 2, 5) == unit_position{.replica = 2, .replicas = 5});
  for (auto const kind :
       {zero::level::optimizer, zero::level::gradients, zero::level::parameters}) {
    CHECK(zero::data_position(kind, 2, 5) == unit_position{.shard = 2, .shards = 5});
    CHECK(zero::data_position(kind, 2, 5).data_ranks() == 5);
  }
}

}  // namespace
}  // namespace stage_test
