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

TEST_CASE("share_of: the shares form the batch, in order, and differ by at most one") {
  for (index ranks = 1; ranks <= 9; ++ranks)
    for (index total = 0; total <= 40; ++total) {
      index next = 0;
      index smallest = total;
      index largest = 0;
      for (index rank = 0; rank < ranks; ++rank) {
        auto const part = share_of(total, rank, ranks);
        CHECK(part.begin == next);
        next = part.end;
        if (rank > 0) CHECK(part.size() <= share_of(total, rank - 1, ranks).size());
        smallest = std::min(smallest, part.size());
        largest = std::max(largest, part.size());
      }
      CHECK(next == total);
      CHECK(largest - smallest <= 1);
    }
}

TEST_CASE("share_of: can be evaluated at compile time") {
  static_assert(share_of(10, 0, 4) == share{0, 3});
  static_assert(share_of(10, 1, 4) == share{3, 6});
  static_assert(share_of(10, 2, 4) == share{6, 8});
  static_assert(share_of(10, 3, 4) == share{8, 10});
  static_assert(share_of(2, 3, 4).size() == 0);
}

TEST_CASE("microbatches: all are full except the last one") {
  CHECK(microbatches({3, 10}, 3) == std::vector<share>{{3, 6}, {6, 9}, {9, 10}});
  CHECK(microbatches({3, 9}, 3) == std::vector<share>{{3, 6}, {6, 9}});
  CHECK(microbatches({3, 9}, 100) == std::vector<share>{{3, 9}});
  CHECK(microbatches({5, 5}, 2).empty());
}

TEST_CASE("microbatches: an empty microbatch is an error") {
  CHECK_THROWS_WITH_AS(static_cast<void>(microbatches({0, 4}, 0)),
                       "a microbatch must hold at least one sequence, got 0", parallel::error);
  CHECK_THROWS_AS(static_cast<void>(microbatches({0, 4}, -1)), parallel::error);
}

TEST_CASE("aligned_share_of: equal powers of two of microbatches, except the last share") {
  using parallel::data::aligned_share_of;
  CHECK(aligned_share_of(11, 1, 0, 3) == parallel::data::share{0, 4});
  CHECK(aligned_share_of(11, 1, 2, 3) == parallel::data::share{8, 11});
  CHECK(aligned_share_of(9, 1, 2, 3) == parallel::data::share{8, 9});
  CHECK(aligned_share_of(9, 1, 3, 4) == parallel::data::share{9, 9});  // empty
  CHECK(aligned_share_of(11, 2, 1, 2) == parallel::data::share{8, 11});
  for (parallel::index const total : {1, 7, 16, 100})
    for (parallel::index const size : {1, 3})
      for (parallel::index const ranks : {1, 2, 3, 5, 8}) {
        parallel::index end = 0;
        for (parallel::index rank = 0; rank < ranks; ++rank) {
          auto const part = aligned_share_of(total, size, rank, ranks);
          CHECK(part.begin == end);
          end = part.end;
        }
        CHECK(end == total);
      }
}

TEST_CASE("share_of, max_microbatches: no ranks or empty microbatches are errors") {
  using namespace parallel::data;
  CHECK_THROWS_WITH_AS(static_cast<void>(max_microbatches(4, 2, 0)),
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
