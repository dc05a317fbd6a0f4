#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include <parallel/comm/threads/run.hpp>
#include <parallel/mesh/mesh.hpp>

namespace mesh_test {

using namespace parallel;

TEST_CASE("ranks of each axis sum exactly their own group, products included") {
  // pipeline 2 x shard 3 x tensor 2: rank = (p * 3 + s) * 2 + t
  auto const shape =
      training_layout{}.with<axis::pipeline>(2).with<axis::shard>(3).with<axis::tensor>(2);
  threads::run(shape.ranks(), [&](threads::communicator& comm) {
    int const me = comm.rank();
    mesh m(std::move(comm), shape);
    REQUIRE(m.rank<axis::pipeline>() == me / 6);
    REQUIRE(m.rank<axis::shard>() == me / 2 % 3);
    REQUIRE(m.rank<axis::tensor>() == me % 2);
    REQUIRE(m.rank<axis::context>() == 0);
    auto tensor = m.along<axis::tensor>();
    auto data = m.along<axis::shard, axis::replicate, axis::context>();
    auto model = m.along<axis::tensor, axis::pipeline>();  // the layout's order, not this one
    auto alone = m.along<axis::context>();
    REQUIRE(alone.size() == 1);
    REQUIRE(data.rank() == m.rank<axis::shard>());
    REQUIRE(model.rank() == m.rank<axis::pipeline>() * 2 + m.rank<axis::tensor>());
    host::stream s;
    auto const sum = [&](auto& over) {
      std::uint64_t x = 1ULL << (4 * me);
      over.all_reduce(s, std::span(&x, 1), reduction::sum).wait();
      return x;
    };
    auto const expected = [&](auto&& same_group) {
      std::uint64_t x = 0;
      for (int r = 0; r < shape.ranks(); ++r)
        if (same_group(r)) x += 1ULL << (4 * r);
      return x;
    };
    CHECK(sum(tensor) == expected([&](int r) { return r / 2 == me / 2; }));
    CHECK(sum(data) == expected([&](int r) { return r / 6 == me / 6 && r % 2 == me % 2; }));
    CHECK(sum(model) == expected([&](int r) { return r / 2 % 3 == me / 2 % 3; }));
    CHECK(sum(m.world()) == expected([](int) { return true; }));
  });
}

TEST_CASE("coordinates and groups partition the ranks for every product of axes") {
  using shape = layout<axis::replicate, axis::shard, axis::tensor>;
  constexpr auto l = shape{}.with<axis::replicate>(2).with<axis::shard>(5).with<axis::tensor>(3);
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

TEST_CASE("a layout that does not fit is refused in one sentence that says what would") {
  auto const l = training_layout{}.with<axis::pipeline>(2).with<axis::tensor>(4);
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
  CHECK(refusal(l.with<axis::shard>(0), 8) ==
        "layout: the degree of shard is 0, but must be at least 1");
}

}  // namespace mesh_test
