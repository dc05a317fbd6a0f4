// restart_policy, with a clock that the test advances.
#include <doctest/doctest.h>

#include <chrono>
#include <vector>

#include <launch/restart_policy.hpp>

namespace restart_policy_test {

using namespace std::chrono_literals;
using apps::restart_policy;
using answer = restart_policy::answer;

struct test_clock {
  parallel::steady_time current_time{};
  /// The decision about a start that fails after this time.
  answer fail_after(restart_policy& policy, std::chrono::seconds time, int code,
                    int generation = 0) {
    policy.begin(generation, current_time);
    current_time += time;
    return policy.decide(code, current_time);
  }
};

TEST_CASE("restart_policy: the pauses between starts that fail early grow up to 30 s") {
  test_clock time;
  restart_policy policy(1000, 300s);
  std::vector<std::chrono::milliseconds> pauses;
  for (int i = 0; i < 7; ++i) {
    CHECK(time.fail_after(policy, 3s, 4) == answer::yes);
    pauses.push_back(policy.pause());
  }
  CHECK(pauses == std::vector<std::chrono::milliseconds>{1s, 2s, 4s, 8s, 16s, 30s, 30s});
  // a start that ran for a minute resets the pause
  CHECK(time.fail_after(policy, 61s, 4) == answer::yes);
  CHECK(policy.pause() == 0s);
  CHECK(time.fail_after(policy, 3s, 3) == answer::yes);
  CHECK(policy.pause() == 1s);
  // a killed rank is no sign of a network outage
  CHECK(time.fail_after(policy, 3s, 137) == answer::yes);
  CHECK(policy.pause() == 0s);
}

TEST_CASE("restart_policy: no pause is longer than the given limit") {
  test_clock time;
  restart_policy policy(1000, 2500ms);
  for (int i = 0; i < 3; ++i) CHECK(time.fail_after(policy, 3s, 4) == answer::yes);
  CHECK(policy.pause() == 2500ms);
}

TEST_CASE("restart_policy: a run that diverged, or was refused twice, is not restarted") {
  test_clock time;
  restart_policy policy(3, 30s);
  CHECK(time.fail_after(policy, 3s, 7) == answer::useless);
  CHECK(time.fail_after(policy, 3s, 1) == answer::yes);
  CHECK(time.fail_after(policy, 3s, 6) == answer::useless);
  CHECK(time.fail_after(policy, 3s, 4) == answer::yes);
  CHECK(time.fail_after(policy, 3s, 1) == answer::yes);
  CHECK(time.fail_after(policy, 70s, 1) == answer::yes);
  CHECK(time.fail_after(policy, 3s, 1, 2) == answer::yes);
  CHECK(time.fail_after(policy, 3s, 4, 3) == answer::no);
}

TEST_CASE("restart_policy: waiting for another program's folder does not count as a restart") {
  test_clock time;
  restart_policy policy(2, 30s, 20s);
  std::vector<std::chrono::milliseconds> pauses;
  int generation = 0;
  for (; time.fail_after(policy, 2s, 9, generation) == answer::yes; ++generation) {
    CHECK(policy.is_waiting());
    CHECK(policy.restart_count() <= 0);
    pauses.push_back(policy.pause());
    REQUIRE(generation < 100);
  }
  CHECK(pauses == std::vector<std::chrono::milliseconds>{1s, 2s, 4s, 8s, 16s});
  restart_policy second_policy(2, 30s, 20s);
  CHECK(time.fail_after(second_policy, 2s, 9, 0) == answer::yes);
  CHECK(time.fail_after(second_policy, 2s, 1, 1) == answer::yes);  // not twice in a row
  CHECK_FALSE(second_policy.is_waiting());
  CHECK(time.fail_after(second_policy, 2s, 4, 2) == answer::yes);
  CHECK(time.fail_after(second_policy, 2s, 4, 3) == answer::no);
  restart_policy no_restarts(0, 30s, 20s);
  CHECK(time.fail_after(no_restarts, 2s, 9, 0) == answer::no);
}

}  // namespace restart_policy_test
