#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <parallel/context/sequence_partition.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/attention.hpp>

namespace division_test {

using namespace parallel;
using context_parallel::sequence_partition;
using parallel::index;

TEST_CASE("every position is held once, and picked rows stand where the context says") {
  for (int ranks = 1; ranks <= 7; ++ranks) {
    index const whole = 2 * ranks * 3;
    std::vector<std::int32_t> positions(static_cast<std::size_t>(2 * whole));
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
    std::vector<int> held(positions.size(), 0);
    for (int rank = 0; rank < ranks; ++rank) {
      sequence_partition const part(rank, ranks, whole);
      auto const here = part.pick(std::span<std::int32_t const>(positions));
      REQUIRE(std::ssize(here) == 2 * part.length());
      for (auto const row : here) ++held[static_cast<std::size_t>(row)];
      host::stream stream;
      arena memory;
      context<host::stream> const c{
          .stream = stream, .memory = memory, .sequence = part.length(), .share = part.share()};
      CHECK(c.whole_sequence() == whole);
      c.for_each_run(2 * part.length(),
                     [&](index row, index count, std::uint64_t sequence, index position) {
                       for (index i = 0; i < count; ++i)
                         CHECK(here[static_cast<std::size_t>(row + i)] ==
                               static_cast<index>(sequence) * whole + position + i);
                     });
    }
    CHECK(std::ranges::count(held, 1) == std::ssize(held));
  }
}

TEST_CASE("ranks have the same causal work to within a chunk's diagonal") {
  for (int const ranks : {2, 3, 8}) {
    index const whole = 2 * ranks * 5;
    std::vector<index> work;
    for (int rank = 0; rank < ranks; ++rank) {
      index pairs = 0;
      sequence_partition const part(rank, ranks, whole);
      for (int which = 0; which < part.runs(); ++which)
        for (index i = 0; i < part.run_at(which).count; ++i) pairs += part.run_at(which).position + i + 1;
      work.push_back(pairs);
    }
    CHECK(std::ranges::count(work, work[0]) == ranks);
  }
}

TEST_CASE("one rank is undivided") {
  sequence_partition const all(0, 1, 7);
  CHECK(all.share() == row_share{});
  CHECK(all.length() == 7);
  CHECK(all.runs() == 1);
}

TEST_CASE("what does not divide is refused with what would") {
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
