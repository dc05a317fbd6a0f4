#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/data/share.hpp>

namespace share_test {
namespace {

using parallel::index;
using parallel::data::microbatches;
using parallel::data::share;
using parallel::data::share_of;

TEST_CASE("the shares of all ranks are the batch, in order, and differ by one at most") {
  for (index ranks = 1; ranks <= 9; ++ranks)
    for (index total = 0; total <= 40; ++total) {
      index next = 0;
      index least = total;
      index most = 0;
      for (index rank = 0; rank < ranks; ++rank) {
        auto const mine = share_of(total, rank, ranks);
        CHECK(mine.begin == next);
        next = mine.end;
        if (rank > 0) CHECK(mine.size() <= share_of(total, rank - 1, ranks).size());
        least = std::min(least, mine.size());
        most = std::max(most, mine.size());
      }
      CHECK(next == total);
      CHECK(most - least <= 1);
    }
}

TEST_CASE("shares are known at compile time") {
  static_assert(share_of(10, 0, 4) == share{0, 3});
  static_assert(share_of(10, 1, 4) == share{3, 6});
  static_assert(share_of(10, 2, 4) == share{6, 8});
  static_assert(share_of(10, 3, 4) == share{8, 10});
  static_assert(share_of(2, 3, 4).size() == 0);
}

TEST_CASE("microbatches are full but for the last one") {
  CHECK(microbatches({3, 10}, 3) == std::vector<share>{{3, 6}, {6, 9}, {9, 10}});
  CHECK(microbatches({3, 9}, 3) == std::vector<share>{{3, 6}, {6, 9}});
  CHECK(microbatches({3, 9}, 100) == std::vector<share>{{3, 9}});
  CHECK(microbatches({5, 5}, 2).empty());
}

TEST_CASE("a microbatch of nothing is refused") {
  CHECK_THROWS_WITH_AS(static_cast<void>(microbatches({0, 4}, 0)),
                       "a microbatch must hold at least one sequence, got 0", parallel::error);
  CHECK_THROWS_AS(static_cast<void>(microbatches({0, 4}, -1)), parallel::error);
}

TEST_CASE("aligned shares hold the same power of two of microbatches, but the last") {
  using parallel::data::aligned_share_of;
  CHECK(aligned_share_of(11, 1, 0, 3) == parallel::data::share{0, 4});
  CHECK(aligned_share_of(11, 1, 2, 3) == parallel::data::share{8, 11});
  CHECK(aligned_share_of(9, 1, 2, 3) == parallel::data::share{8, 9});
  CHECK(aligned_share_of(9, 1, 3, 4) == parallel::data::share{9, 9});  // nothing is left
  CHECK(aligned_share_of(11, 2, 1, 2) == parallel::data::share{8, 11});
  for (parallel::index const total : {1, 7, 16, 100})
    for (parallel::index const size : {1, 3})
      for (parallel::index const ranks : {1, 2, 3, 5, 8}) {
        parallel::index end = 0;
        for (parallel::index rank = 0; rank < ranks; ++rank) {
          auto const mine = aligned_share_of(total, size, rank, ranks);
          CHECK(mine.begin == end);
          end = mine.end;
        }
        CHECK(end == total);
      }
}

TEST_CASE("shares of nobody and microbatches of nothing are refused") {
  using namespace parallel::data;
  CHECK_THROWS_WITH_AS(static_cast<void>(most_microbatches(4, 2, 0)),
                       "a microbatch must hold at least one sequence, got 0", parallel::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(aligned_share_of(4, 0, 0, 2)),
                       "a microbatch must hold at least one sequence, got 0", parallel::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(share_of(4, 0, 0)),
                       "a share of 4 sequences over 0 ranks; there must be 0 sequences or more, "
                       "and 1 rank or more",
                       parallel::error);
}

}  // namespace
}  // namespace share_test
