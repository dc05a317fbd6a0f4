#include <doctest/doctest.h>

#include <parallel/zero/stage.hpp>

namespace stage_test {
namespace {

using parallel::index;
using parallel::zero::range;
using parallel::zero::shard_of;

static_assert(shard_of(96, 1, 3) == range{32, 64});

TEST_CASE("shards are equal, adjacent, and cover the segment") {
  for (index const ranks : {1, 2, 3, 5, 8}) {
    index const size = 32 * ranks * 7;
    index end = 0;
    for (index rank = 0; rank < ranks; ++rank) {
      range const mine = shard_of(size, rank, ranks);
      CHECK(mine.begin == end);
      CHECK(mine.size() == size / ranks);
      end = mine.end;
    }
    CHECK(end == size);
  }
  CHECK(shard_of(0, 2, 3).size() == 0);
}

}  // namespace
}  // namespace stage_test
