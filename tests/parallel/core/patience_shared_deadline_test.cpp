#include <chrono>

#include <doctest/doctest.h>

#include <parallel/core/patience.hpp>

namespace shared_deadline_test {
using namespace std::chrono_literals;

TEST_CASE("shared_deadline: copies share their value; a new object has its own") {
  parallel::shared_deadline const one = 600s;
  auto const copy = one;
  parallel::shared_deadline const other = 600s;
  copy.set(std::chrono::duration<double>(1.5));
  CHECK(one.get() == 1500ms);
  CHECK(one.seconds() == 1.5);
  CHECK(other.get() == 600s);
}
}  // namespace shared_deadline_test
