#include <chrono>

#include <doctest/doctest.h>

#include <parallel/core/patience.hpp>

namespace patience_test {
using namespace std::chrono_literals;
using parallel::patience;

TEST_CASE("patience: with regular checks it expires after its limit") {
  auto time = parallel::steady_time() + 1h;
  patience wait(5s, time);
  for (int tenths = 1; tenths <= 50; ++tenths) CHECK_FALSE(wait.is_over(time += 100ms));
  CHECK(wait.is_over(time += 1ms));
}

TEST_CASE("patience: does not expire while the process is stopped") {
  auto time = parallel::steady_time() + 1h;
  patience wait(5s, time);
  CHECK_FALSE(wait.is_over(time += 200ms));
  CHECK_FALSE(wait.is_over(time += 20s));  // counts as patience::max_pause
  for (int tenths = 1; tenths <= 45; ++tenths) CHECK_FALSE(wait.is_over(time += 100ms));
  CHECK(wait.is_over(time += 51ms));
}

TEST_CASE("patience: next_check is early enough for the limit") {
  auto const time = parallel::steady_time() + 1h;
  CHECK(patience(5s, time).next_check() == time + patience::max_pause);
  patience wait(20ms, time);
  CHECK(wait.next_check() == time + 21ms);
  CHECK(wait.is_over(wait.next_check()));
  CHECK(wait.next_check() <= time + 21ms);
}
}  // namespace patience_test
