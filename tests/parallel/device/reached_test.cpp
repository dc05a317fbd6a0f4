#include <chrono>

#include <doctest/doctest.h>

#include <parallel/device/concepts.hpp>
#include <parallel/device/reached.hpp>

TEST_CASE("nobody waits for what is never pending") {
  static_assert(parallel::event<parallel::reached>);
  parallel::reached const mark;
  mark.wait();
  CHECK(mark.ready());
  CHECK(mark.wait_until(std::chrono::steady_clock::now()));
}
