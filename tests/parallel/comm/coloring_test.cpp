#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <parallel/comm/checked.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/detail/subgroup.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/core/error.hpp>
#include <parallel/mesh/mesh.hpp>

namespace coloring_test {

namespace detail = parallel::detail;
using parallel::coloring;
using parallel::signature;

/// An exchange that gives the colors of all ranks, whatever this rank contributes.
parallel::signature_exchange exchange_of(std::vector<int> const& colors) {
  return [colors](signature const&) {
    std::vector<signature> out;
    for (int const color : colors)
      out.push_back({.kind = parallel::operation_kind::split, .peer = color});
    return out;
  };
}

TEST_CASE("coloring: colors are exchanged only where they are not known") {
  bool was_opened = false;
  auto const open = [&] {
    was_opened = true;
    return exchange_of({2, 0, 2, 1});
  };
  CHECK(detail::colors_of(2, 0, 4, open) == std::vector{2, 0, 2, 1});
  CHECK(was_opened);
  was_opened = false;
  auto const known = coloring([](int rank) { return rank / 2; });
  CHECK(detail::colors_of(known, 0, 5, open) == std::vector{0, 0, 1, 1, 2});
  CHECK(detail::colors_of(coloring::single_color(), 2, 3, open) == std::vector{0, 0, 0});
  CHECK(!was_opened);
}

TEST_CASE("coloring: a subgroup has the ranks of the own color, in order") {
  auto const part = detail::subgroup_of({3, 1, 3, 3, 1}, 3);
  CHECK(part.ranks == std::vector{0, 2, 3});
  CHECK(part.rank == 2);
  CHECK(part.color == 3);
}

TEST_CASE("coloring: splits of known colors are numbered apart from exchanges") {
  auto const known = coloring::single_color();
  std::uint64_t splits = 0;
  CHECK(detail::split_number(known, splits, 7) == 1);
  CHECK(detail::split_number(0, splits, 7) == 14);
  CHECK(detail::split_number(known, splits, 8) == 3);
  CHECK(detail::split_number(0, splits, 8) == 16);
  CHECK(splits == 2);
}

TEST_CASE("coloring: negative colors are refused") {
  auto const open = [] { return exchange_of({0, 1, 1}); };
  CHECK_THROWS_WITH_AS(static_cast<void>(detail::colors_of(-1, 0, 3, open)),
                       "split: the color must not be negative, but is -1", parallel::error);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(detail::colors_of(coloring([](int rank) { return 1 - rank; }), 0, 3, open)),
      "split: the color must not be negative, but is -1 for rank 2", parallel::error);
}

TEST_CASE("coloring: groups along a mesh axis are made although other ranks never come") {
  namespace axis = parallel::axis;
  parallel::threads::run(8, [](parallel::threads::communicator& world) {
    auto const shape =
        parallel::training_layout{}.with_degree<axis::pipeline>(4).with_degree<axis::tensor>(2);
    int const own_rank = world.rank();
    if (own_rank >= 4) return;
    parallel::mesh mesh(parallel::checked(std::move(world)), shape);
    auto tensor = mesh.split_along<axis::tensor>();
    parallel::host::stream s;
    std::vector<int> sum{own_rank};
    tensor.all_reduce(s, std::span(sum), parallel::reduction::sum).wait();
    CHECK(sum[0] == 2 * (own_rank / 2 * 2) + 1);
  });
}

}  // namespace coloring_test
