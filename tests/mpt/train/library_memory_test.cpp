#include <doctest/doctest.h>

#include <cstddef>

#include <mpt/train/library_memory.hpp>

namespace library_memory_test {

namespace axis = parallel::axis;
using parallel::training_layout;
using parallel::zero::level;

/// Of so many communicators.
constexpr std::size_t bytes(std::size_t communicators) {
  return (std::size_t{512} << 20) + communicators * (std::size_t{704} << 20);
}

TEST_CASE("a GPU's libraries take more the more communicators a rank has") {
  CHECK(mpt::library_memory({}, level::parameters) == bytes(0));
  auto const sharded = training_layout{}.with<axis::shard>(8);
  CHECK(mpt::library_memory(sharded, level::parameters) == bytes(2 + 2));
  auto const replicas = training_layout{}.with<axis::replicate>(8);
  CHECK(mpt::library_memory(replicas, level::none) == bytes(2 + 1));
  auto const model = training_layout{}.with<axis::pipeline>(2).with<axis::tensor>(4);
  CHECK(mpt::library_memory(model, level::none) == bytes(2 + 3 + 1));
  auto const hybrid = sharded.with<axis::replicate>(2).with<axis::context>(2);
  CHECK(mpt::library_memory(hybrid, level::optimizer) == bytes(2 + 2 + 1 + 1));
}

}  // namespace library_memory_test
