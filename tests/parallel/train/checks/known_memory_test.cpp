// Knowledge about a range of memory holds for its parts until another range is set over them.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <parallel/train/checks/known_memory.hpp>

namespace known_memory_test {

TEST_CASE("known memory: a later range cuts earlier ones") {
  parallel::train::known_memory<int> memory;
  memory.set(100, 200, 1);
  memory.set(120, 140, 2);
  auto const found = [&](std::uintptr_t begin, std::uintptr_t end) {
    std::vector<int> out;
    memory.for_each(begin, end, [&](int known) { out.push_back(known); });
    return out;
  };
  CHECK(found(0, 100).empty());
  CHECK(found(100, 120) == std::vector<int>{1});
  CHECK(found(119, 121) == std::vector<int>{1, 2});
  CHECK(found(125, 126) == std::vector<int>{2});
  CHECK(found(0, 300) == std::vector<int>{1, 2, 1});
  memory.set(50, 300, 3);
  CHECK(found(0, 300) == std::vector<int>{3});
  memory.set(60, 60, 4);
  CHECK(found(0, 300) == std::vector<int>{3});
}

TEST_CASE("known memory: variations add up") {
  parallel::train::variation<float> one, other{.rows = true};
  CHECK(!one.is_possible());
  one.add(other);
  CHECK(one.rows);
  CHECK(one.is_possible());
}

}  // namespace known_memory_test
