#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <parallel/context_parallel/sequence_partition.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/attention.hpp>

namespace division_test {

using namespace parallel;
using context_parallel::sequence_partition;
using parallel::index;

TEST_CASE(
    "sequence partition: every position is held once, and picked rows are at the context's "
    "positions") {
  for (int ranks = 1; ranks <= 7; ++ranks) {
    index const whole = 2 * ranks * 3;
    std::vector<std::int32_t> positions(static_cast<std::size_t>(2 * whole));
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
    std::vector<int> hold_counts(positions.size(), 0);
    for (int rank = 0; rank < ranks; ++rank) {
      sequence_partition const part(rank, ranks, whole);
      auto const local_rows = part.pick(std::span<std::int32_t const>(positions));
      REQUIRE(std::ssize(local_rows) == 2 * part.length());
      for (auto const row : local_rows) ++hold_counts[static_cast<std::size_t>(row)];
      host::stream stream;
      arena memory;
      context<host::stream> const c{
          .stream = stream, .memory = memory, .sequence = part.length(), .share = part.share()};
      CHECK(c.whole_sequence() == whole);
      c.for_each_run(2 * part.length(),
                     [&](index row, index count, std::uint64_t sequence, index position) {
                       for (index i = 0; i < count; ++i)
                         CHECK(local_rows[static_cast<std::size_t>(row + i)] ==
                               static_cast<index>(sequence) * whole + position + i);
                     });
    }
    CHECK(std::ranges::count(hold_counts, 1) == std::ssize(hold_counts));
  }
}

TEST_CASE("sequence partition: ranks have the same causal work") {
  for (int const ranks : {2, 3, 8}) {
    index const whole = 2 * ranks * 5;
    std::vector<index> work;
    for (int rank = 0; rank < ranks; ++rank) {
      index pairs = 0;
      sequence_partition const part(rank, ranks, whole);
      for (int run_number = 0; run_number < part.runs(); ++run_number)
        for (index i = 0; i < part.run_at(run_number).count; ++i)
          pairs += part.run_at(run_number).position + i + 1;
      work.push_back(pairs);
    }
    CHECK(std::ranges::count(work, work[0]) == ranks);
  }
}

TEST_CASE("sequence partition: one rank is undivided") {
  sequence_partition const undivided(0, 1, 7);
  CHECK(undivided.share() == row_share{});
  CHECK(undivided.length() == 7);
  CHECK(undivided.runs() == 1);
}

TEST_CASE("sequence partition: lengths that do not divide are refused with possible ones") {
  CHECK_THROWS_WITH_AS(
      sequence_partition(0, 4, 30),
      "context: sequences of 30 positions do not divide into 2 x 4 chunks, as a "
      "context degree of 4 needs; set their length to 24 or 32, or the degree to 3",
      error);
  CHECK_THROWS_WITH_AS(sequence_partition(1, 3, 4),
                       "context: sequences of 4 positions do not divide into 2 x 3 chunks, as a "
                       "context degree of 3 needs; set their length to 6, or the degree to 2",
                       error);
  CHECK_THROWS_AS(sequence_partition(3, 3, 6), error);
  std::vector<int> const rows(7);
  CHECK_THROWS_AS(static_cast<void>(sequence_partition(0, 2, 4).pick(std::span<int const>(rows))),
                  error);
}

}  // namespace division_test
