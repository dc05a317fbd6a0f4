#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <set>
#include <span>

#include <parallel/comm/threads/run.hpp>
#include <parallel/mesh/mesh.hpp>

namespace mesh_test {

using namespace parallel;

TEST_CASE(
    "mesh: a sum along an axis, or a product of axes, covers exactly the ranks of that group") {
  // pipeline 2 x shard 3 x tensor 2: rank = (p * 3 + s) * 2 + t
  auto const shape = training_layout{}
                         .with_degree<axis::pipeline>(2)
                         .with_degree<axis::shard>(3)
                         .with_degree<axis::tensor>(2);
  threads::run(shape.ranks(), [&](threads::communicator& comm) {
    int const own_rank = comm.rank();
    mesh m(std::move(comm), shape);
    REQUIRE(m.rank<axis::pipeline>() == own_rank / 6);
    REQUIRE(m.rank<axis::shard>() == own_rank / 2 % 3);
    REQUIRE(m.rank<axis::tensor>() == own_rank % 2);
    REQUIRE(m.rank<axis::context>() == 0);
    auto tensor = m.split_along<axis::tensor>();
    auto data = m.split_along<axis::shard, axis::replicate, axis::context>();
    auto model = m.split_along<axis::tensor, axis::pipeline>();  // the layout's order, not this one
    auto single = m.split_along<axis::context>();
    REQUIRE(single.size() == 1);
    REQUIRE(data.rank() == m.rank<axis::shard>());
    REQUIRE(model.rank() == m.rank<axis::pipeline>() * 2 + m.rank<axis::tensor>());
    host::stream s;
    auto const sum = [&](auto& group) {
      std::uint64_t x = 1ULL << (4 * own_rank);
      group.all_reduce(s, std::span(&x, 1), reduction::sum).wait();
      return x;
    };
    auto const expected = [&](auto&& same_group) {
      std::uint64_t x = 0;
      for (int r = 0; r < shape.ranks(); ++r)
        if (same_group(r)) x += 1ULL << (4 * r);
      return x;
    };
    CHECK(sum(tensor) == expected([&](int r) { return r / 2 == own_rank / 2; }));
    CHECK(sum(data) ==
          expected([&](int r) { return r / 6 == own_rank / 6 && r % 2 == own_rank % 2; }));
    CHECK(sum(model) == expected([&](int r) { return r / 2 % 3 == own_rank / 2 % 3; }));
    CHECK(sum(m.world()) == expected([](int) { return true; }));
  });
}

TEST_CASE("layout: coordinates and groups partition the ranks for every product of axes") {
  using shape = layout<axis::replicate, axis::shard, axis::tensor>;
  constexpr auto l =
      shape{}.with_degree<axis::replicate>(2).with_degree<axis::shard>(5).with_degree<axis::tensor>(
          3);
  static_assert(l.ranks() == 30);
  static_assert(l.coordinate<axis::tensor>(29) == 2 && l.coordinate<axis::replicate>(14) == 0);
  static_assert(l.position<axis::replicate, axis::tensor>(17) == 1 * 3 + 2);
  std::set<std::array<int, 2>> seen;
  for (int r = 0; r < l.ranks(); ++r)
    seen.insert(
        {l.group<axis::replicate, axis::tensor>(r), l.position<axis::tensor, axis::replicate>(r)});
  CHECK(seen.size() == 30);
  CHECK((*seen.rbegin()) == std::array{4, 5});
}

std::string refusal(training_layout const& shape, int ranks) {
  try {
    shape.check(ranks);
  } catch (error const& thrown) {
    return thrown.what();
  }
  return "accepted";
}

TEST_CASE(
    "layout: one that does not fit the number of ranks is refused with proposals that would fit") {
  auto const l = training_layout{}.with_degree<axis::pipeline>(2).with_degree<axis::tensor>(4);
  CHECK(refusal(l, 8) == "accepted");
  CHECK(refusal(training_layout{}, 1) == "accepted");
  CHECK(refusal(l, 16) ==
        "layout: pipeline 2 x tensor 4 needs 8 ranks, but there are 16; start 8 ranks, or set "
        "pipeline to 4 or replicate to 2 or shard to 2 or context to 2 or tensor to 8");
  CHECK(refusal(l, 6) ==
        "layout: pipeline 2 x tensor 4 needs 8 ranks, but there are 6; start 8 ranks, or set "
        "tensor to 3");
  CHECK(refusal(l, 7) ==
        "layout: pipeline 2 x tensor 4 needs 8 ranks, but there are 7; start 8 ranks");
  CHECK(refusal(l.with_degree<axis::shard>(0), 8) ==
        "layout: the degree of shard is 0, but must be at least 1");
}

}  // namespace mesh_test
