#include <chrono>

#include <doctest/doctest.h>

#include <parallel/device/concepts.hpp>

TEST_CASE("reached_event: is ready immediately, and waiting for it succeeds") {
  static_assert(parallel::event<parallel::reached_event>);
  parallel::reached_event const event;
  event.wait();
  CHECK(event.ready());
  CHECK(event.wait_until(std::chrono::steady_clock::now()));
}
