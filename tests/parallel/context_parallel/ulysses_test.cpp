// The exchange of heads for positions with exact integers: any number of ranks gives the bits of
// one, and every exchange that is dropped, doubled or divided changes the result.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/context_parallel/ulysses.hpp>

#include "support/context_run.hpp"
#include "support/trace.hpp"

namespace ulysses_test {

using namespace parallel;
using context_parallel::method;
using parallel::index;
using test::attend_on;
using test::attend_single_rank;
using test::context_problem;

std::vector<context_problem> problems(int ranks) {
  index const chunk_count = 2 * ranks;
  return {
      {.length = 3 * chunk_count, .width = 6 * ranks, .heads = 2 * ranks},
      {.sequences = 1, .length = chunk_count, .width = ranks, .heads = ranks},
      {.sequences = 2, .length = 4 * chunk_count, .width = 2 * ranks, .heads = ranks, .window = 5},
      {.sequences = 4,
       .length = 3 * chunk_count,
       .width = 4 * ranks,
       .heads = ranks,
       .document = 4}};
}

TEST_CASE("Ulysses attention: any number of ranks gives the bits of one rank") {
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (auto const& problem : problems(ranks)) {
      CAPTURE(ranks);
      CAPTURE(problem.length);
      CAPTURE(problem.window);
      CAPTURE(problem.document);
      CHECK(attend_on(ranks, method::ulysses, problem) == attend_single_rank(problem));
    }
}

TEST_CASE("Ulysses attention: packed rows of several sections are restored") {
  threads::run(3, [](threads::communicator& comm) {
    host::stream compute, exchanges;
    context_parallel::group<threads::communicator> const ranks(comm, exchanges);
    host::device device;
    arena memory(device.allocate<std::byte>(1 << 16));
    context_parallel::sequence_partition const part(comm.rank(), 3, 12);
    context<host::stream> c{
        .stream = compute, .memory = memory, .sequence = part.length(), .share = part.share()};
    std::vector<index> const sections{6, 3, 3};
    std::vector<double> x(2 * 4 * 12);
    // 100 times the sequence plus the position, and a hundredth of the column
    c.for_each_run(8, [&](index row, index count, std::uint64_t sequence, index position) {
      for (index i = 0; i < count; ++i)
        for (index column = 0; column < 12; ++column)
          x[static_cast<std::size_t>((row + i) * 12 + column)] =
              static_cast<double>(100 * static_cast<index>(sequence) + position + i) +
              static_cast<double>(column) / 100;
    });
    matrix_view<double const> const rows(x.data(), {8, 12});
    matrix_view<double const> const heads = context_parallel::to_heads(c, ranks, rows, sections);
    auto const returned = context_parallel::to_rows(c, ranks, heads, sections);
    compute.synchronize();
    REQUIRE(heads.extents() == shape<2>{24, 4});
    index const r = comm.rank();
    for (index row = 0; row < 24; ++row) {
      std::vector<index> const columns{2 * r, 2 * r + 1, 6 + r, 9 + r};
      for (index i = 0; i < 4; ++i)
        CHECK(heads(row, i) == static_cast<double>(100 * (row / 12) + row % 12) +
                                   static_cast<double>(columns[static_cast<std::size_t>(i)]) / 100);
    }
    CHECK(std::vector<double>(returned.data(), returned.data() + returned.size()) == x);
  });
}

TEST_CASE("Ulysses attention: bytes sent are those of the formula and of the meta device") {
  for (int const ranks : {2, 3, 5})
    for (auto const& problem : problems(ranks)) {
      auto const rows = static_cast<std::uint64_t>(problem.sequences * problem.length / ranks *
                                                   problem.width * index{sizeof(test::ring)});
      auto const n = static_cast<std::uint64_t>(ranks);
      // queries, keys and values are the same here: two exchanges forward and two backward
      CHECK(test::sent_bytes(ranks, method::ulysses, problem) == 4 * rows / n * (n - 1));
      for (int rank = 0; rank < ranks; ++rank)
        CHECK(test::planned_bytes(rank, ranks, method::ulysses, problem) == 4 * rows / n * (n - 1));
    }
}

TEST_CASE("Ulysses attention: every dropped, doubled or divided exchange changes the result") {
  for (int const ranks : {2, 3}) {
    auto const result =
        test::mutate(ranks, method::ulysses,
                     {.sequences = 2, .length = 4 * ranks, .width = 2 * ranks, .heads = ranks});
    MESSAGE(result.mutants << " mutants, " << result.survivors << " unnoticed");
    CHECK(result.mutants == 3 * ranks * 4);
    CHECK(result.survivors == 0);
  }
}

TEST_CASE("Ulysses attention: a pass over undivided rows is refused before anything is sent") {
  test::check_undivided_rows_refused(method::ulysses);
}

TEST_CASE("Ulysses attention: random delays change nothing") {
  context_problem const problem{.length = 24, .width = 12, .heads = 3};
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    test::trace log;
    auto const actual = attend_on(3, method::ulysses, problem, [&](threads::communicator comm) {
      philox const random(seed, static_cast<std::uint32_t>(comm.rank()));
      return test::delayed(std::move(comm), log, [random](int k) {
        std::this_thread::sleep_for(
            std::chrono::microseconds(random.bits(static_cast<std::uint64_t>(k)) % 1500));
      });
    });
    CHECK(actual == attend_single_rank(problem));
  }
}

TEST_CASE(
    "Ulysses attention: numbers of heads that do not divide are refused with possible degrees") {
  CHECK_NOTHROW(context_parallel::check_heads("query", 6, 3));
  CHECK_THROWS_WITH_AS(context_parallel::check_heads("query", 6, 4),
                       "context: 6 query heads cannot be divided among 4 ranks, as the exchange of "
                       "heads needs; set the context degree to 3 or 6, or choose the ring",
                       error);
  CHECK_THROWS_WITH_AS(context_parallel::check_heads("key", 1, 2),
                       "context: 1 key heads cannot be divided among 2 ranks, as the exchange of "
                       "heads needs; set the context degree to 1, or choose the ring",
                       error);
}

}  // namespace ulysses_test
