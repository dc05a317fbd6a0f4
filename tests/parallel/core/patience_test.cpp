#include <chrono>

#include <doctest/doctest.h>

#include <parallel/core/patience.hpp>

namespace patience_test {
using namespace std::chrono_literals;
using parallel::patience;

TEST_CASE("whoever asks all the time waits as long as was said") {
  auto now = parallel::steady_time() + 1h;
  patience wait(5s, now);
  for (int tenths = 1; tenths <= 50; ++tenths) CHECK_FALSE(wait.is_over(now += 100ms));
  CHECK(wait.is_over(now += 1ms));
}

TEST_CASE("a process that was stopped for longer than its deadline has missed none") {
  auto now = parallel::steady_time() + 1h;
  patience wait(5s, now);
  CHECK_FALSE(wait.is_over(now += 200ms));
  CHECK_FALSE(wait.is_over(now += 20s));  // counts as patience::pause
  for (int tenths = 1; tenths <= 45; ++tenths) CHECK_FALSE(wait.is_over(now += 100ms));
  CHECK(wait.is_over(now += 51ms));
}

TEST_CASE("whoever sleeps in between is woken in time") {
  auto const now = parallel::steady_time() + 1h;
  CHECK(patience(5s, now).next() == now + patience::pause);
  patience wait(20ms, now);
  CHECK(wait.next() == now + 21ms);
  CHECK(wait.is_over(wait.next()));
  CHECK(wait.next() <= now + 21ms);
}
}  // namespace patience_test
