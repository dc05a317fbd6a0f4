#include <chrono>

#include <doctest/doctest.h>

#include <parallel/device/concepts.hpp>
#include <parallel/device/reached_event.hpp>

TEST_CASE("reached_event: ready at once") {
  static_assert(parallel::event<parallel::reached_event>);
  parallel::reached_event const mark;
  mark.wait();
  CHECK(mark.ready());
  CHECK(mark.wait_until(std::chrono::steady_clock::now()));
}
