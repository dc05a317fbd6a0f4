// The first way that runs is kept, and no more ways are requested than needed.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/ops/cuda/first_that_runs.hpp>

namespace first_that_runs_test {

/// Yields the ways 0, 1, ..., last, and records the requests.
struct counting {
  int last;
  std::vector<int>* requested;
  int next = 0;

  std::unique_ptr<int const> operator()() {
    if (next > last) return nullptr;
    requested->push_back(next);
    return std::make_unique<int const>(next++);
  }
};

struct attempts {
  std::vector<int> requested, tried;
  parallel::cuda::first_that_runs<counting> ways;

  explicit attempts(int count) : ways({.last = count - 1, .requested = &requested}) {}
  /// Runs with the ways from `first` on working.
  bool run(int first) {
    return ways([&](int way) {
      tried.push_back(way);
      return way >= first;
    });
  }
};

TEST_CASE("first_that_runs: ways are tried in turn until one runs, which is kept") {
  attempts trial(4);
  CHECK(!trial.ways.proven());
  CHECK(trial.run(2));
  CHECK(trial.ways.proven());
  CHECK(trial.run(0));
  CHECK(trial.run(1));
  CHECK(trial.tried == std::vector{0, 1, 2, 2, 2});
  CHECK(trial.requested == std::vector{0, 1, 2});
}

TEST_CASE("first_that_runs: if no way runs, none is tried again") {
  for (int const count : {0, 3}) {
    attempts trial(count);
    CHECK(!trial.run(count));
    CHECK(!trial.run(0));
    CHECK(!trial.ways.proven());
    CHECK(static_cast<int>(trial.tried.size()) == count);
  }
}

TEST_CASE("first_that_runs: a way that has run and fails later is not replaced") {
  attempts trial(3);
  CHECK(trial.run(1));
  CHECK(!trial.run(3));
  CHECK(trial.run(1));
  CHECK(trial.tried == std::vector{0, 1, 1, 1});
}

TEST_CASE("first_that_runs: choose keeps the best of the current way and the next ones") {
  for (int const best : {-1, 0, 1, 2}) {
    CAPTURE(best);
    attempts trial(5);
    CHECK(trial.run(1));
    std::vector<int> offered;
    trial.ways.choose(3, [&](int count, auto const& way_at) {
      for (int i = 0; i < count; ++i) offered.push_back(way_at(i));
      return best;
    });
    CHECK(offered == std::vector{1, 2, 3});
    CHECK(trial.requested == std::vector{0, 1, 2, 3});  // no more than needed
    CHECK(trial.ways.way() == (best < 0 ? 1 : 1 + best));
    CHECK(trial.run(0));
    CHECK(trial.tried.back() == trial.ways.way());
  }
  attempts last(2);
  CHECK(last.run(1));
  last.ways.choose(3, [&](int count, auto const&) { return count - 1; });
  CHECK(last.ways.way() == 1);
}

TEST_CASE("first_that_runs: an exception from choose keeps the way that has run") {
  attempts trial(3);
  CHECK(trial.run(0));
  CHECK_THROWS_AS(trial.ways.choose(3, [](int, auto const&) -> int { parallel::fail("lost"); }),
                  parallel::error);
  CHECK(trial.ways.way() == 0);
}

TEST_CASE("first_that_runs: an exception from a way leaves the others to be tried") {
  attempts trial(3);
  CHECK_THROWS_AS(
      static_cast<void>(trial.ways([](int) -> bool { parallel::fail("out of memory"); })),
      parallel::error);
  CHECK(!trial.ways.proven());
  CHECK(trial.run(0));
  CHECK(trial.tried == std::vector{1});
}

}  // namespace first_that_runs_test
