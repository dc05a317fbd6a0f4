#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include <parallel/checkpoint/save_timer.hpp>

namespace save_timer_test {
using parallel::checkpoint::save_timer;

TEST_CASE(
    "save timer: a save lasts from its beginning to its end, and delays training only while held") {
  save_timer timer;
  CHECK(timer.costs().saves == 0);
  auto const pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
  for (int save = 0; save < 2; ++save) {
    timer.begin();
    { save_timer::hold const hold(timer); }
    pause();
    {
      save_timer::hold const hold(timer);
      pause();
    }
    timer.end();
  }
  auto const costs = timer.costs();
  CHECK(costs.saves == 2);
  CHECK(costs.held_up_seconds >= 0.02);
  CHECK(costs.seconds >= costs.held_up_seconds + 0.02);
}

}  // namespace save_timer_test
