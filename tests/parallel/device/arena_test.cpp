#include <cstdint>

#include <doctest/doctest.h>

#include <parallel/device/arena.hpp>
#include <parallel/device/host/device.hpp>

namespace arena_test {
namespace {

using parallel::arena;

arena arena_of(std::size_t bytes) {
  return arena(parallel::host::device().allocate<std::byte>(bytes));
}

TEST_CASE("arena: allocations are adjacent, each aligned to a cache line") {
  auto memory = arena_of(1024);
  auto const a = memory.allocate<char, 1>({1});
  auto const b = memory.allocate<double, 2>({3, 4});
  auto const c = memory.allocate<float, 1>({0});
  auto const d = memory.allocate<float, 1>({1});
  CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % arena::alignment == 0);
  CHECK(reinterpret_cast<char*>(b.data()) == a.data() + 64);
  CHECK(reinterpret_cast<char*>(c.data()) == a.data() + 64 + 128);
  CHECK(static_cast<void*>(d.data()) == static_cast<void*>(c.data()));
  CHECK(b.extents() == parallel::shape<2>{3, 4});
  CHECK(memory.mark() == 256);
}

TEST_CASE("arena: memory released to a mark is reused; the peak stays") {
  auto memory = arena_of(512);
  auto const base = memory.allocate<std::byte, 1>({64});
  auto const mark = memory.mark();
  auto const first = memory.allocate<std::byte, 1>({300});
  memory.release(mark);
  auto const second = memory.allocate<std::byte, 1>({10});
  CHECK(second.data() == first.data());
  CHECK(second.data() == base.data() + 64);
  CHECK(memory.peak() == 64 + 320);
}

TEST_CASE("arena: nested scopes free their allocations") {
  auto memory = arena_of(512);
  auto const outer = memory.mark();
  {
    arena::scope const one(memory);
    static_cast<void>(memory.allocate<float, 1>({16}));
    auto const inner = memory.mark();
    {
      arena::scope const two(memory);
      static_cast<void>(memory.allocate<float, 1>({16}));
      CHECK(memory.mark() == inner + 64);
    }
    CHECK(memory.mark() == inner);
  }
  CHECK(memory.mark() == outer);
  CHECK(memory.peak() == 128);
}

TEST_CASE("arena: the error of a full arena states its capacity and the bytes needed") {
  auto memory = arena_of(128);
  static_cast<void>(memory.allocate<float, 1>({16}));
  CHECK_NOTHROW(static_cast<void>(memory.allocate<float, 1>({16})));
  CHECK_THROWS_WITH_AS(
      static_cast<void>(memory.allocate<double, 1>({3})),
      "the activation arena of 128 bytes is too small: 192 are needed; give it the size that "
      "plan_activations returns for these microbatches (if it has that size, the memory plan is "
      "wrong)",
      parallel::error);
}

TEST_CASE("arena: a measuring arena returns null pointers and counts the same bytes") {
  auto real = arena_of(4096);
  arena plan;
  for (auto* const memory : {&real, &plan}) {
    arena::scope const scope(*memory);
    static_cast<void>(memory->allocate<float, 2>({7, 9}));
    static_cast<void>(memory->allocate<double, 3>({2, 3, 5}));
  }
  CHECK(plan.peak() == real.peak());
  CHECK(plan.allocate<float, 2>({1 << 20, 1 << 20}).data() == nullptr);
  CHECK(plan.allocate<float, 2>({3, 5}).extents() == parallel::shape<2>{3, 5});
}

}  // namespace
}  // namespace arena_test
