// When launch starts again, by a clock that the test turns.
#include <doctest/doctest.h>

#include <chrono>
#include <vector>

#include <launching/another_start.hpp>

namespace another_start_test {

using namespace std::chrono_literals;
using apps::another_start;
using answer = another_start::answer;

struct clock {
  parallel::steady_time now{};
  /// What is said of a start that ends so long after it began.
  answer after(another_start& starts, std::chrono::seconds time, int code, int generation = 0) {
    starts.begin(generation, now);
    now += time;
    return starts.may_help(code, now);
  }
};

TEST_CASE("starts that soon fail are tried again at growing distances") {
  clock time;
  another_start starts(1000, 300s);
  std::vector<std::chrono::milliseconds> pauses;
  for (int i = 0; i < 7; ++i) {
    CHECK(time.after(starts, 3s, 4) == answer::yes);
    pauses.push_back(starts.pause());
  }
  CHECK(pauses == std::vector<std::chrono::milliseconds>{1s, 2s, 4s, 8s, 16s, 30s, 30s});
  // ten such last for some minutes, one that ran puts an end to it
  CHECK(time.after(starts, 61s, 4) == answer::yes);
  CHECK(starts.pause() == 0s);
  CHECK(time.after(starts, 3s, 3) == answer::yes);
  CHECK(starts.pause() == 1s);
  // a killed rank is no network that is away
  CHECK(time.after(starts, 3s, 137) == answer::yes);
  CHECK(starts.pause() == 0s);
}

TEST_CASE("no pause is longer than nodes wait for each other") {
  clock time;
  another_start starts(1000, 2500ms);
  for (int i = 0; i < 3; ++i) CHECK(time.after(starts, 3s, 4) == answer::yes);
  CHECK(starts.pause() == 2500ms);
}

TEST_CASE("what would end the same is not started again") {
  clock time;
  another_start starts(3, 30s);
  CHECK(time.after(starts, 3s, 7) == answer::of_no_use);
  CHECK(time.after(starts, 3s, 1) == answer::yes);
  CHECK(time.after(starts, 3s, 6) == answer::of_no_use);
  CHECK(time.after(starts, 3s, 4) == answer::yes);
  CHECK(time.after(starts, 3s, 1) == answer::yes);
  CHECK(time.after(starts, 70s, 1) == answer::yes);
  CHECK(time.after(starts, 3s, 1, 2) == answer::yes);
  CHECK(time.after(starts, 3s, 4, 3) == answer::no);
}

TEST_CASE("a folder that another program writes into is waited for, which uses no start up") {
  clock time;
  another_start starts(2, 30s, 20s);
  std::vector<std::chrono::milliseconds> pauses;
  int generation = 0;
  for (; time.after(starts, 2s, 9, generation) == answer::yes; ++generation) {
    CHECK(starts.waits());
    CHECK(starts.counted() <= 0);
    pauses.push_back(starts.pause());
    REQUIRE(generation < 100);
  }
  CHECK(pauses == std::vector<std::chrono::milliseconds>{1s, 2s, 4s, 8s, 16s});
  another_start others(2, 30s, 20s);
  CHECK(time.after(others, 2s, 9, 0) == answer::yes);
  CHECK(time.after(others, 2s, 1, 1) == answer::yes);  // not twice in a row
  CHECK_FALSE(others.waits());
  CHECK(time.after(others, 2s, 4, 2) == answer::yes);
  CHECK(time.after(others, 2s, 4, 3) == answer::no);
  another_start never(0, 30s, 20s);
  CHECK(time.after(never, 2s, 9, 0) == answer::no);
}

}  // namespace another_start_test
